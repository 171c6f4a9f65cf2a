"""What clients show us, and what is kept of their use."""

from datetime import timedelta

from django.conf import settings
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now

#: The longest life of a client token, with a day for rounding.
TOKEN_LIFE_MAX = timedelta(days=366)


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
