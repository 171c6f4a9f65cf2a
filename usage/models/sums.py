"""Sums of the ledger's records, kept in the transaction that settles them: reports read nothing else."""

from django.contrib.postgres.fields import ArrayField
from django.db import models


class Sums(models.Model):
    """Settled attempts of one span of time that agree in everything the table tells apart, summed.

    `key` is the hash of those columns; `usage.rollups` lists them.
    """

    key = models.UUIDField()

    upstream_id = models.BigIntegerField(null=True)
    upstream_name = models.CharField(max_length=150)
    upstream_model = models.CharField(max_length=200)
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

    class Meta:
        abstract = True


class Times(models.Model):
    """Attempts per time bucket; see `usage.histogram`."""

    ttft_histogram = ArrayField(models.IntegerField())
    duration_histogram = ArrayField(models.IntegerField())

    class Meta:
        abstract = True


class ByMember(models.Model):
    """Who used what with which client."""

    user_id = models.BigIntegerField(null=True)
    user_name = models.CharField(max_length=150)
    team_id = models.BigIntegerField(null=True)
    team_name = models.CharField(max_length=150)
    token_id = models.BigIntegerField(null=True)
    token_name = models.CharField(max_length=150)
    alias = models.CharField(max_length=200)
    client_name = models.CharField(max_length=64)
    client_version = models.CharField(max_length=32)

    class Meta:
        abstract = True


class ByCredential(models.Model):
    """With which credential it was served."""

    credential_id = models.BigIntegerField(null=True)
    credential_label = models.CharField(max_length=150)

    class Meta:
        abstract = True


class UsageHour(ByMember, Times, Sums):
    """Sums by hour and member."""

    pk = models.CompositePrimaryKey("hour", "key")
    hour = models.DateTimeField()

    class Meta:
        verbose_name = "hour of usage"
        verbose_name_plural = "hours of usage"

    def __str__(self) -> str:
        return f"{self.hour:%Y-%m-%d %H}h {self.user_name} {self.upstream_model} {self.state}"


class UsageDay(ByMember, Times, Sums):
    """Sums by day and member: what reports over weeks and months read."""

    pk = models.CompositePrimaryKey("day", "key")
    #: Its first moment, in UTC.
    day = models.DateTimeField()

    class Meta:
        verbose_name = "day of usage"
        verbose_name_plural = "days of usage"
        # Counting up touches neither column, so a row is still updated in place.
        indexes = [
            models.Index(fields=["user_id", "day"], name="usage_day_user"),
            models.Index(fields=["team_id", "day"], name="usage_day_team"),
        ]

    def __str__(self) -> str:
        return f"{self.day:%Y-%m-%d} {self.user_name} {self.upstream_model} {self.state}"


class CredentialDay(ByCredential, Times, Sums):
    """Sums by day and credential, whoever used it."""

    pk = models.CompositePrimaryKey("day", "key")
    day = models.DateTimeField()

    class Meta:
        verbose_name = "day of a credential"
        verbose_name_plural = "days of credentials"

    def __str__(self) -> str:
        return f"{self.day:%Y-%m-%d} {self.credential_label} {self.upstream_model} {self.state}"


class CrossedDay(ByMember, ByCredential, Sums):
    """Sums by day, member and credential at once. There are many of them, hence no times."""

    pk = models.CompositePrimaryKey("day", "key")
    day = models.DateTimeField()

    class Meta:
        verbose_name = "day of a member with a credential"
        verbose_name_plural = "days of members with credentials"

    def __str__(self) -> str:
        return f"{self.day:%Y-%m-%d} {self.user_name} {self.credential_label} {self.upstream_model} {self.state}"
