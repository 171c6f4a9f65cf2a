"""Who writes the ledger, and which requests clients may repeat."""

from django.db import models
from django.db.models.functions import Now


class WorkerLease(models.Model):
    """A living writer. When `beat` stands still, its open records are `lost` and its reservations void."""

    worker = models.CharField(max_length=64, primary_key=True)
    #: Counts up; others watch it by their own monotonic clocks, so that no set clock kills a worker.
    beat = models.BigIntegerField(default=0)
    started_at = models.DateTimeField(db_default=Now())
    beat_at = models.DateTimeField(db_default=Now())

    def __str__(self) -> str:
        return f"{self.worker} beat {self.beat}"


class IdempotencyKey(models.Model):
    """A request that its client may send again without a second answer being made."""

    token_id = models.BigIntegerField()
    #: As the client sent it, at most 255 characters.
    key = models.CharField(max_length=255)
    #: SHA-256 of the request's body.
    body_digest = models.BinaryField()
    request_id = models.CharField(max_length=64)
    worker = models.CharField(max_length=64)
    made_at = models.DateTimeField(db_default=Now())
    #: NULL while the first request runs.
    status = models.SmallIntegerField(null=True)
    answer = models.BinaryField(null=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["token_id", "key"], name="usage_idempotency_once")]
        indexes = [models.Index(fields=["made_at"], name="usage_idempotency_made_at")]

    def __str__(self) -> str:
        return f"{self.key} of token {self.token_id}"
