from django.db import models


class TokenMinute(models.Model):
    """What is left of a client token's minute, where several workers count together; unlogged."""

    token_id = models.BigIntegerField(primary_key=True)
    #: None where the token has no such limit.
    requests = models.FloatField(null=True)
    tokens = models.FloatField(null=True)
    counted_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"token {self.token_id}: {self.requests} requests, {self.tokens} tokens"


class TokenRunning(models.Model):
    """How many of a client token's answers run on one worker; void without that worker's lease. Unlogged."""

    pk = models.CompositePrimaryKey("token_id", "worker")
    token_id = models.BigIntegerField()
    worker = models.CharField(max_length=64)
    running = models.PositiveIntegerField()

    def __str__(self) -> str:
        return f"token {self.token_id} on {self.worker}: {self.running}"
