"""What happened to the pool, in order: written by triggers on the tables of states."""

from django.db import models
from django.db.models.functions import Now


class PoolChange(models.Model):
    """A credential, or an upstream as a whole, came to another state."""

    upstream_id = models.BigIntegerField()
    upstream_name = models.CharField("upstream", max_length=150)
    #: NULL when it is about the upstream, whatever the credential.
    credential_id = models.BigIntegerField(null=True)
    credential_label = models.CharField("credential", max_length=150)
    #: Empty when it is about all models.
    model_name = models.CharField("model", max_length=200)
    state = models.CharField(max_length=16)
    cause = models.CharField(max_length=32)
    until = models.DateTimeField(null=True)
    changed_at = models.DateTimeField(db_default=Now())

    class Meta:
        ordering = ["-id"]
        indexes = [models.Index(fields=["changed_at"], name="usage_poolchange_changed_at")]

    def __str__(self) -> str:
        return f"{self.credential_label or self.upstream_name} {self.model_name} {self.state}".replace("  ", " ")
