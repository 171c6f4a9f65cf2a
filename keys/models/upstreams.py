"""An upstream, how it is spoken to, and its models."""

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
