"""Secrets for upstreams, and what the pool knows of them and of the workers that use them."""

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from keys.models.upstreams import Upstream


class State(models.TextChoices):
    READY = "ready", "ready"
    COOLING = "cooling", "cooling"
    EJECTED = "ejected", "ejected"
    QUARANTINED = "quarantined", "quarantined"
    UNDECRYPTABLE = "undecryptable", "undecryptable"


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


class Worker(models.Model):
    """A server process and what it has open; when its heartbeat stops, its claims are void."""

    id = models.CharField(max_length=64, primary_key=True)
    started_at = models.DateTimeField(db_default=Now())
    heartbeat_at = models.DateTimeField(db_default=Now(), db_index=True)
    #: {credential id: [in flight, sends in the last minute, tokens in the last minute]}
    loads = models.JSONField(default=dict)

    def __str__(self) -> str:
        return self.id
