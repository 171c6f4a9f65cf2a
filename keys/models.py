"""Upstreams, their credentials and models, the routes to them, and the tokens of clients."""

from datetime import timedelta

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now

from keys.egress import RefusedURL, check_base_url
from translator.core.profiles import ProfileError, profile_named

#: The profile of an upstream of which nothing is known.
PLAIN = "plain"
#: An upstream may be asked so often to go on with one answer.
CONTINUE_ROUNDS_MAX = 4
#: The longest life of a client token, with a day for rounding.
TOKEN_LIFE_MAX = timedelta(days=366)


class Dialect(models.TextChoices):
    OPENAI_CHAT = "openai_chat", "OpenAI chat/completions"
    OPENAI_RESPONSES = "openai_responses", "OpenAI responses"
    ANTHROPIC = "anthropic", "Anthropic messages"


class Tools(models.TextChoices):
    NATIVE = "native", "native"
    EMULATED = "emulated", "emulated in the prompt"


class Compaction(models.TextChoices):
    OFF = "off", "off: the client is told that its prompt is too long"
    TRIM = "trim", "old messages are left out"
    SUMMARY = "summary", "old messages are summed up by a model"


class State(models.TextChoices):
    READY = "ready", "ready"
    COOLING = "cooling", "cooling"
    EJECTED = "ejected", "ejected"
    QUARANTINED = "quarantined", "quarantined"
    UNDECRYPTABLE = "undecryptable", "undecryptable"


def validate_base_url(url: str) -> None:
    """Refuse what `check_base_url` refuses, under this installation's allowances."""
    try:
        check_base_url(url, settings.ALLOW_PRIVATE_UPSTREAMS)
    except RefusedURL as exc:
        raise ValidationError(str(exc)) from exc


class Upstream(models.Model):
    """A provider's API as Bridge calls it."""

    name = models.SlugField(max_length=64, unique=True)
    dialect = models.CharField(max_length=32, choices=Dialect, default=Dialect.OPENAI_CHAT)
    # Not a URLField: its admin widget makes a link of the value.
    base_url = models.CharField(
        "base URL",
        max_length=500,
        validators=[validate_base_url],
        help_text="Up to the version, such as https://api.example.com/v1. A change clears the stored secrets.",
    )
    profile = models.CharField(max_length=64, blank=True, default="", help_text="Known quirks; empty means none.")
    profile_overrides = models.JSONField(blank=True, default=dict)
    connect_timeout_s = models.FloatField(default=10)
    first_byte_timeout_s = models.FloatField(default=120)
    idle_timeout_s = models.FloatField(default=120, help_text="The longest gap between two pieces of an answer.")
    total_timeout_s = models.FloatField(default=3600)
    enabled = models.BooleanField(default=True)
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        ordering = ["name"]
        constraints = [
            models.CheckConstraint(name="keys_upstream_dialect_known", condition=Q(dialect__in=Dialect.values)),
            models.CheckConstraint(
                name="keys_upstream_timeouts_positive",
                condition=Q(
                    connect_timeout_s__gt=0, first_byte_timeout_s__gt=0, idle_timeout_s__gt=0, total_timeout_s__gt=0
                ),
            ),
        ]

    def __str__(self) -> str:
        return self.name

    def clean(self) -> None:
        """Refuse a profile or a switch that doesn't exist."""
        try:
            profile_named(self.profile or PLAIN, self.profile_overrides)
        except ProfileError as exc:
            raise ValidationError({"profile": str(exc)}) from exc


class Credential(models.Model):
    """A secret of ours for an upstream; sealed at rest and never shown again."""

    upstream = models.ForeignKey(Upstream, on_delete=models.CASCADE, related_name="credentials")
    label = models.CharField(max_length=100)
    sealed_secret = models.TextField(editable=False, default="")
    last_four = models.CharField(max_length=4, editable=False, default="")
    enabled = models.BooleanField(default=True)
    draining = models.BooleanField(default=False, help_text="Takes no new sessions; running ones finish.")
    priority = models.SmallIntegerField(default=0, help_text="Lower numbers serve first.")
    weight = models.PositiveSmallIntegerField(default=1, help_text="Its share of the load among equals.")
    rpm = models.PositiveIntegerField("requests per minute", null=True, blank=True)
    tpm = models.PositiveIntegerField("tokens per minute", null=True, blank=True)
    concurrency = models.PositiveIntegerField("requests at once", null=True, blank=True)
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        ordering = ["upstream__name", "priority", "label"]
        constraints = [
            models.UniqueConstraint(name="keys_credential_label_unique", fields=["upstream", "label"]),
            models.CheckConstraint(name="keys_credential_weight_positive", condition=Q(weight__gte=1)),
            models.CheckConstraint(
                name="keys_credential_limits_positive",
                condition=(Q(rpm=None) | Q(rpm__gte=1))
                & (Q(tpm=None) | Q(tpm__gte=1))
                & (Q(concurrency=None) | Q(concurrency__gte=1)),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.label} (…{self.last_four})" if self.last_four else self.label


class StateFields(models.Model):
    """What the pool learned about one thing that can fail; shared by all workers."""

    #: Empty when the state is that of all models.
    model_name = models.CharField(max_length=200, blank=True, default="")
    state = models.CharField(max_length=16, choices=State, default=State.READY)
    until = models.DateTimeField(null=True, blank=True)
    cause = models.CharField(max_length=32, blank=True, default="")
    #: Failures since the last success.
    failures = models.PositiveIntegerField(default=0)
    #: Rests since the last success; the next rest grows with it.
    rests = models.PositiveIntegerField(default=0)
    last_success_at = models.DateTimeField(null=True, blank=True)
    last_failure_at = models.DateTimeField(null=True, blank=True)
    changed_at = models.DateTimeField(db_default=Now())

    class Meta:
        abstract = True


class CredentialState(StateFields):
    """The state of a credential, or of one model on it."""

    credential = models.ForeignKey(Credential, on_delete=models.CASCADE, related_name="states")

    class Meta:
        constraints = [
            models.UniqueConstraint(name="keys_credentialstate_unique", fields=["credential", "model_name"]),
            models.CheckConstraint(name="keys_credentialstate_known", condition=Q(state__in=State.values)),
        ]

    def __str__(self) -> str:
        return f"{self.credential_id} {self.model_name or 'all models'}: {self.state}"


class UpstreamState(StateFields):
    """The state of an upstream as a whole, or of one model on it, whatever the credential."""

    upstream = models.ForeignKey(Upstream, on_delete=models.CASCADE, related_name="states")

    class Meta:
        constraints = [
            models.UniqueConstraint(name="keys_upstreamstate_unique", fields=["upstream", "model_name"]),
            models.CheckConstraint(name="keys_upstreamstate_known", condition=Q(state__in=State.values)),
        ]

    def __str__(self) -> str:
        return f"{self.upstream_id} {self.model_name or 'all models'}: {self.state}"


class UpstreamModel(models.Model):
    """What is known of a model that an upstream offers."""

    upstream = models.ForeignKey(Upstream, on_delete=models.CASCADE, related_name="models")
    name = models.CharField(max_length=200)
    context_window = models.PositiveIntegerField(null=True, blank=True)
    max_output_tokens = models.PositiveIntegerField(null=True, blank=True)
    tools = models.CharField(max_length=16, choices=Tools, default=Tools.NATIVE)
    # NULL: nobody said, so the upstream's profile decides.
    vision = models.BooleanField("takes images", null=True, blank=True)
    pdf = models.BooleanField("takes PDF files", null=True, blank=True)
    reasoning = models.BooleanField("reasons", null=True, blank=True)
    compaction = models.CharField(
        "long conversations",
        max_length=16,
        choices=Compaction,
        default=Compaction.OFF,
        db_default=Compaction.OFF,
        help_text="For clients that don't compact by themselves; needs the context window.",
    )
    compact_above = models.PositiveSmallIntegerField(
        "compact above",
        default=80,
        db_default=80,
        validators=[MinValueValidator(20), MaxValueValidator(100)],
        help_text="Percent of the context window.",
    )
    compact_to = models.PositiveSmallIntegerField(
        "compact to",
        default=40,
        db_default=40,
        validators=[MinValueValidator(10), MaxValueValidator(90)],
        help_text="Percent of the context window; the farther below, the seldomer the prompt cache is lost.",
    )
    summary_alias = models.CharField(
        "summaries by",
        max_length=200,
        blank=True,
        default="",
        db_default="",
        help_text="The alias that writes summaries; empty for the one that the client asks for.",
    )

    continue_rounds = models.PositiveSmallIntegerField(
        "go on, at most",
        default=0,
        db_default=0,
        validators=[MaxValueValidator(CONTINUE_ROUNDS_MAX)],
        help_text="How often the model is asked to go on with an answer that it cut off before the client's own limit; 0 for never. "
        "Each time sends the whole input again. For upstreams that speak chat/completions.",
    )

    class Meta:
        ordering = ["upstream__name", "name"]
        constraints = [
            models.UniqueConstraint(name="keys_upstreammodel_name_unique", fields=["upstream", "name"]),
            models.CheckConstraint(
                name="keys_upstreammodel_continue_rounds", condition=Q(continue_rounds__lte=CONTINUE_ROUNDS_MAX)
            ),
            models.CheckConstraint(
                name="keys_upstreammodel_compaction_known", condition=Q(compaction__in=Compaction.values)
            ),
            models.CheckConstraint(
                name="keys_upstreammodel_compaction_has_window",
                condition=Q(compaction=Compaction.OFF) | Q(context_window__isnull=False),
                violation_error_message="Long conversations can be compacted only where the context window is known.",
            ),
            models.CheckConstraint(
                name="keys_upstreammodel_compaction_shares",
                condition=Q(compact_to__gte=10, compact_to__lt=F("compact_above"), compact_above__lte=100),
                violation_error_message="Compact to less than what is compacted, between 10 and 100 percent.",
            ),
            models.CheckConstraint(name="keys_upstreammodel_tools_known", condition=Q(tools__in=Tools.values)),
        ]

    def __str__(self) -> str:
        return f"{self.upstream.name}/{self.name}"


class Route(models.Model):
    """The name that clients send, and where it leads."""

    alias = models.CharField(
        max_length=200, unique=True, help_text="A name, a pattern such as claude-*, or * for every name."
    )
    enabled = models.BooleanField(default=True)

    class Meta:
        ordering = ["alias"]
        constraints = [
            models.CheckConstraint(
                name="keys_route_star_is_last",
                condition=Q(alias__regex=r"^[^*[:space:]]*[*]?$") & ~Q(alias=""),
                violation_error_message="An alias is a name, a pattern such as claude-*, or * for every name.",
            ),
        ]

    def __str__(self) -> str:
        return self.alias


class RouteTarget(models.Model):
    """An upstream model that a route leads to."""

    route = models.ForeignKey(Route, on_delete=models.CASCADE, related_name="targets")
    position = models.PositiveSmallIntegerField(
        default=0, help_text="The lowest serves; the next are its fallbacks. Equal ones share by weight."
    )
    upstream = models.ForeignKey(Upstream, on_delete=models.CASCADE, related_name="targets")
    upstream_model = models.CharField(
        max_length=200, blank=True, default="", help_text="Empty sends the client's own name on."
    )
    weight = models.PositiveSmallIntegerField(default=1)

    class Meta:
        ordering = ["position", "id"]
        constraints = [
            models.UniqueConstraint(name="keys_routetarget_unique", fields=["route", "upstream", "upstream_model"]),
            models.CheckConstraint(name="keys_routetarget_weight_positive", condition=Q(weight__gte=1)),
        ]

    def __str__(self) -> str:
        return f"{self.upstream.name}/{self.upstream_model or '(same name)'}"


class ClientToken(models.Model):
    """What a member's client shows us. Only its digest is stored."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="client_tokens")
    name = models.CharField(max_length=100, default="default")
    #: SHA-256 of the whole token, in hex.
    digest = models.CharField(max_length=64, unique=True, editable=False)
    prefix = models.CharField(max_length=16, editable=False)
    last_four = models.CharField(max_length=4, editable=False)
    scopes = models.JSONField(
        default=list, blank=True, help_text="Aliases or patterns that it may use; empty means all."
    )
    #: As `keys.networks` writes them; empty means everywhere.
    networks = models.JSONField(default=list, db_default=[], blank=True)
    rpm = models.PositiveIntegerField("requests per minute", null=True, blank=True)
    tpm = models.PositiveIntegerField("tokens per minute", null=True, blank=True)
    concurrency = models.PositiveIntegerField("requests at once", null=True, blank=True)
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    expires_at = models.DateTimeField()
    revoked_at = models.DateTimeField(null=True, blank=True, editable=False)
    last_used_at = models.DateTimeField(null=True, blank=True, editable=False)
    #: When its member was told that it ends soon, or rotated it.
    reminded_at = models.DateTimeField(null=True, blank=True, editable=False)

    class Meta:
        ordering = ["user__username", "name"]
        constraints = [
            models.CheckConstraint(
                name="keys_clienttoken_expiry_bounded", condition=Q(expires_at__lte=F("created_at") + TOKEN_LIFE_MAX)
            ),
        ]

    def __str__(self) -> str:
        return f"{self.prefix}…{self.last_four}"


class TokenRefusal(models.Model):
    """The last request with a client token that was turned away before any upstream was asked."""

    token = models.OneToOneField(ClientToken, on_delete=models.CASCADE, primary_key=True, related_name="refusal")
    at = models.DateTimeField()
    request_id = models.CharField(max_length=64)
    #: What the client was told.
    status = models.PositiveSmallIntegerField()
    error_type = models.CharField(max_length=64)
    message = models.CharField(max_length=500)
    method = models.CharField(max_length=16)
    path = models.CharField(max_length=200)
    client_name = models.CharField(max_length=64)
    client_version = models.CharField(max_length=32)

    def __str__(self) -> str:
        return f"{self.token_id}: {self.status} {self.error_type}"


class Sighting(models.Model):
    """A live secret of ours that was seen in the text of requests; nothing of the text."""

    kind = models.CharField(max_length=16)
    #: Of the client token or the credential; no foreign key, since it is one of two.
    secret_id = models.BigIntegerField()
    #: Of a credential, whose secret may be replaced; empty for a token.
    last_four = models.CharField(max_length=4)
    first_at = models.DateTimeField()
    last_at = models.DateTimeField()
    #: Requests that it was seen in.
    times = models.PositiveIntegerField()
    #: The last of them, and whose it was.
    request_id = models.CharField(max_length=64)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+")
    #: Whoever sets it sends the alert, so that of several workers one does.
    told_at = models.DateTimeField(null=True)
    dismissed_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(name="keys_sighting_unique", fields=["kind", "secret_id", "last_four"]),
            models.CheckConstraint(name="keys_sighting_kind_known", condition=Q(kind__in=["token", "credential"])),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.secret_id} in {self.request_id}"


class Worker(models.Model):
    """A server process and what it has open; when its heartbeat stops, its claims are void."""

    id = models.CharField(max_length=64, primary_key=True)
    started_at = models.DateTimeField(db_default=Now())
    heartbeat_at = models.DateTimeField(db_default=Now(), db_index=True)
    #: {credential id: [in flight, sends in the last minute, tokens in the last minute]}
    loads = models.JSONField(default=dict)

    def __str__(self) -> str:
        return self.id
