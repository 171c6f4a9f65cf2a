"""The ledger: a record per upstream attempt, the hourly sums of them, prices and budgets.

Ids of members, tokens, upstreams and credentials are plain numbers with the names beside them, not foreign keys:
what was deleted stays in the reports under the name it had. Money is integer 1e-9 USD.
"""

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
    attempt = models.PositiveSmallIntegerField(default=1)
    worker = models.CharField(max_length=64)

    started_at = models.DateTimeField(db_default=Now())
    settled_at = models.DateTimeField(null=True)
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
    stream = models.BooleanField(default=False)

    state = models.CharField(max_length=16, choices=State, default=State.OPEN)
    source = models.CharField("usage source", max_length=16, choices=Source, default=Source.UNKNOWN)
    http_status = models.SmallIntegerField("HTTP status", null=True)
    error_type = models.CharField(max_length=64)
    stop_reason = models.CharField(max_length=64)
    notes = ArrayField(models.TextField(), default=list)

    #: Input excludes cached tokens; output includes thinking.
    input_tokens = models.BigIntegerField(default=0)
    cache_read_tokens = models.BigIntegerField(default=0)
    cache_write_tokens = models.BigIntegerField(default=0)
    output_tokens = models.BigIntegerField(default=0)
    thinking_tokens = models.BigIntegerField(default=0)
    #: In 1e-9 USD; NULL while unknown, never 0 for want of a price.
    cost_nano = models.BigIntegerField("cost (1e-9 USD)", null=True)
    #: The id of the `Price` behind the cost.
    price_version = models.BigIntegerField(null=True)

    class Meta:
        ordering = ["-id"]
        indexes = [
            models.Index(fields=["user_id", "id"], name="usage_record_user"),
            models.Index(fields=["token_id", "id"], name="usage_record_token"),
            models.Index(fields=["upstream_model", "id"], name="usage_record_model"),
            models.Index(fields=["credential_id", "id"], name="usage_record_credential"),
            models.Index(fields=["state", "id"], name="usage_record_state", condition=~Q(state=State.OK)),
            models.Index(fields=["session_id", "id"], name="usage_record_session", condition=~Q(session_id="")),
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


class UsageHour(models.Model):
    """Settled attempts of one hour that agree in everything a report can group by, summed.

    Kept in the transaction that settles the records. `key` is the hash of the grouped-by columns.
    """

    pk = models.CompositePrimaryKey("hour", "key")
    hour = models.DateTimeField()
    key = models.UUIDField()

    user_id = models.BigIntegerField(null=True)
    user_name = models.CharField(max_length=150)
    team_id = models.BigIntegerField(null=True)
    team_name = models.CharField(max_length=150)
    token_id = models.BigIntegerField(null=True)
    token_name = models.CharField(max_length=150)
    alias = models.CharField(max_length=200)
    upstream_id = models.BigIntegerField(null=True)
    upstream_name = models.CharField(max_length=150)
    upstream_model = models.CharField(max_length=200)
    credential_id = models.BigIntegerField(null=True)
    credential_label = models.CharField(max_length=150)
    client_name = models.CharField(max_length=64)
    client_version = models.CharField(max_length=32)
    state = models.CharField(max_length=16)
    error_type = models.CharField(max_length=64)

    #: First attempts: what the client sees as one request.
    requests = models.BigIntegerField(default=0)
    attempts = models.BigIntegerField(default=0)
    streams = models.BigIntegerField(default=0)
    #: Attempts whose usage the upstream didn't count to the end, and their tokens of every kind.
    estimated = models.BigIntegerField(default=0)
    estimated_tokens = models.BigIntegerField(default=0)
    #: Attempts with tokens and no known price.
    unpriced = models.BigIntegerField(default=0)
    input_tokens = models.BigIntegerField(default=0)
    cache_read_tokens = models.BigIntegerField(default=0)
    cache_write_tokens = models.BigIntegerField(default=0)
    output_tokens = models.BigIntegerField(default=0)
    thinking_tokens = models.BigIntegerField(default=0)
    cost_nano = models.BigIntegerField(default=0)
    #: Attempts per time bucket; see `usage.histogram`.
    ttft_histogram = ArrayField(models.IntegerField())
    duration_histogram = ArrayField(models.IntegerField())

    class Meta:
        verbose_name = "hour of usage"
        verbose_name_plural = "hours of usage"

    def __str__(self) -> str:
        return f"{self.hour:%Y-%m-%d %H}h {self.user_name} {self.upstream_model} {self.state}"


class Price(models.Model):
    """What an upstream model costs from a moment on. A new price is a new row: records name theirs by id.

    Unit: 1e-12 USD per token, which is the same as 1e-6 USD per million tokens. (Providers price cached tokens
    below 1e-9 USD; whole 1e-9 per token would be wrong by percents.)
    """

    upstream_id = models.BigIntegerField(null=True, blank=True, help_text="Empty: this model at any upstream.")
    upstream_model = models.CharField(max_length=200)
    valid_from = models.DateTimeField(db_default=Now())
    input_price = models.BigIntegerField(help_text="1e-6 USD per million tokens.")
    output_price = models.BigIntegerField(help_text="1e-6 USD per million tokens.")
    cache_read_price = models.BigIntegerField(null=True, blank=True, help_text="Empty: as input.")
    cache_write_price = models.BigIntegerField(null=True, blank=True, help_text="Empty: as input.")
    thinking_price = models.BigIntegerField(null=True, blank=True, help_text="Empty: as output.")
    origin = models.CharField(max_length=150, blank=True)

    class Meta:
        ordering = ["upstream_model", "-valid_from"]
        constraints = [
            models.UniqueConstraint(
                fields=["upstream_model", "upstream_id", "valid_from"],
                name="usage_price_dated_once",
                nulls_distinct=False,
            ),
            models.CheckConstraint(
                condition=Q(input_price__gte=0, output_price__gte=0)
                & (Q(cache_read_price__isnull=True) | Q(cache_read_price__gte=0))
                & (Q(cache_write_price__isnull=True) | Q(cache_write_price__gte=0))
                & (Q(thinking_price__isnull=True) | Q(thinking_price__gte=0)),
                name="usage_price_not_negative",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.upstream_model} from {self.valid_from:%Y-%m-%d}"


class Budget(models.Model):
    """How much a client token, a user or a team may use per period, in 1e-9 USD or in tokens."""

    class Subject(models.TextChoices):
        TOKEN = "token", "client token"
        USER = "user", "user"
        TEAM = "team", "team"

    class Period(models.TextChoices):
        HOUR = "hour", "hour"
        DAY = "day", "day"
        WEEK = "week", "week"
        MONTH = "month", "month"
        TOTAL = "total", "in all"

    class Unit(models.TextChoices):
        USD = "usd", "USD"
        TOKENS = "tokens", "tokens"

    name = models.CharField(max_length=150, unique=True)
    subject = models.CharField(max_length=8, choices=Subject)
    subject_id = models.BigIntegerField()
    period = models.CharField(max_length=8, choices=Period, default=Period.MONTH)
    unit = models.CharField(max_length=8, choices=Unit, default=Unit.USD)
    enabled = models.BooleanField(default=True)
    #: In 1e-9 USD or tokens, as are `spent` and `reserved`.
    limit = models.BigIntegerField()
    spent = models.BigIntegerField(default=0, editable=False)
    reserved = models.BigIntegerField(default=0, editable=False)
    #: Start of the period that `spent` belongs to.
    period_start = models.DateTimeField(db_default=Now(), editable=False)
    warn_percents = ArrayField(models.PositiveSmallIntegerField(), default=list, blank=True)
    #: The highest percentage warned of in this period.
    warned_percent = models.PositiveSmallIntegerField(default=0, editable=False)

    class Meta:
        ordering = ["name"]
        indexes = [models.Index(fields=["subject", "subject_id"], name="usage_budget_subject")]
        constraints = [
            models.CheckConstraint(
                condition=Q(limit__gte=0, spent__gte=0, reserved__gte=0), name="usage_budget_not_negative"
            ),
        ]

    def __str__(self) -> str:
        return self.name
