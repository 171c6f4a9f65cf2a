"""The ledger itself: a record per upstream attempt."""

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now

from usage.ids import new_record_id
from usage.states import Source, State


class UsageRecord(models.Model):
    """One request to one upstream with one credential. The table is partitioned by month of its id."""

    id = models.UUIDField(primary_key=True, default=new_record_id, editable=False)
    request_id = models.CharField(max_length=64)
    #: What the client itself calls the request; anybody may say anything, and the same twice.
    client_request_id = models.CharField("client's request id", max_length=128, db_default="")
    attempt = models.PositiveSmallIntegerField(default=1)
    worker = models.CharField(max_length=64)

    started_at = models.DateTimeField(db_default=Now())
    settled_at = models.DateTimeField(null=True)
    #: From the request's arrival, or the end of the attempt before, to the send.
    queued_ms = models.IntegerField("queued (ms)", null=True)
    ttft_ms = models.IntegerField("TTFT (ms)", null=True)
    duration_ms = models.IntegerField("duration (ms)", null=True)

    user_id = models.BigIntegerField(null=True)
    user_name = models.CharField("user", max_length=150)
    team_id = models.BigIntegerField(null=True)
    team_name = models.CharField("team", max_length=150)
    token_id = models.BigIntegerField(null=True)
    token_name = models.CharField("client token", max_length=150)
    alias = models.CharField(max_length=200)
    upstream_id = models.BigIntegerField(null=True)
    upstream_name = models.CharField("upstream", max_length=150)
    upstream_model = models.CharField(max_length=200)
    credential_id = models.BigIntegerField(null=True)
    credential_label = models.CharField("credential", max_length=150)

    client_name = models.CharField("client", max_length=64)
    client_version = models.CharField(max_length=32)
    session_id = models.CharField(max_length=128)
    #: What the client says of who asks within the session: a sub-agent's id, empty for the main agent, and its kind.
    agent_id = models.CharField(max_length=64, db_default="")
    agent_kind = models.CharField(max_length=64, db_default="")
    stream = models.BooleanField(default=False)
    #: Why this credential, by ids: who was considered and who was passed over.
    decision = models.JSONField(null=True)

    state = models.CharField(max_length=16, choices=State, default=State.OPEN)
    source = models.CharField("usage source", max_length=16, choices=Source, default=Source.UNKNOWN)
    http_status = models.SmallIntegerField("HTTP status", null=True)
    error_type = models.CharField(max_length=64)
    #: What the client was told, without secrets.
    error_message = models.CharField(max_length=500, db_default="")
    stop_reason = models.CharField(max_length=64)
    notes = ArrayField(models.TextField(), default=list)

    #: Input excludes cached tokens; output includes thinking.
    input_tokens = models.BigIntegerField(default=0)
    cache_read_tokens = models.BigIntegerField(default=0)
    cache_write_tokens = models.BigIntegerField(default=0)
    output_tokens = models.BigIntegerField(default=0)
    thinking_tokens = models.BigIntegerField(default=0)
    #: Of the cache writes, those that are kept for an hour.
    cache_write_1h_tokens = models.BigIntegerField("cache write tokens for 1 h", default=0, db_default=0)
    #: In 1e-9 USD; NULL while unknown, never 0 for want of a price.
    cost_nano = models.BigIntegerField("cost (1e-9 USD)", null=True)
    #: The id of the `Price` behind the cost.
    price_version = models.BigIntegerField(null=True)

    class Meta:
        ordering = ["-id"]
        permissions = [("view_all_usage", "Can view the usage of every team")]
        indexes = [
            models.Index(fields=["user_id", "id"], name="usage_record_user"),
            models.Index(fields=["token_id", "id"], name="usage_record_token"),
            models.Index(fields=["upstream_model", "id"], name="usage_record_model"),
            models.Index(fields=["upstream_id", "id"], name="usage_record_upstream"),
            models.Index(fields=["credential_id", "id"], name="usage_record_credential"),
            models.Index(fields=["state", "id"], name="usage_record_state", condition=~Q(state=State.OK)),
            models.Index(fields=["session_id", "id"], name="usage_record_session", condition=~Q(session_id="")),
            # Notes are counted and looked for in here alone; `usage.rows` keeps them short enough for an index.
            models.Index(
                fields=["id"],
                include=["started_at", "state", "upstream_id", "upstream_model", "team_id", "user_id", "notes"],
                name="usage_record_noted",
                condition=~Q(notes=[]),
            ),
            models.Index(
                fields=["client_request_id", "id"],
                name="usage_record_client_request",
                condition=~Q(client_request_id=""),
            ),
        ]
        constraints = [
            models.CheckConstraint(condition=Q(state__in=State.values), name="usage_record_state_known"),
            models.CheckConstraint(condition=Q(source__in=Source.values), name="usage_record_source_known"),
            models.CheckConstraint(condition=Q(attempt__gte=1), name="usage_record_attempt_from_1"),
            models.CheckConstraint(
                condition=Q(state=State.OPEN) | Q(settled_at__isnull=False), name="usage_record_settled_at_set"
            ),
            models.CheckConstraint(
                condition=Q(
                    input_tokens__gte=0,
                    cache_read_tokens__gte=0,
                    cache_write_tokens__gte=0,
                    output_tokens__gte=0,
                    thinking_tokens__gte=0,
                    thinking_tokens__lte=F("output_tokens"),
                ),
                name="usage_record_tokens_sane",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.request_id} #{self.attempt} {self.state}"
