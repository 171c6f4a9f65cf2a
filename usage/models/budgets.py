"""How much may be used, and what running requests hold of it."""

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now


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
    #: Model aliases, or patterns of them, that it is for; empty for all.
    aliases = ArrayField(models.CharField(max_length=200), default=list, db_default=[], blank=True)
    period = models.CharField(max_length=8, choices=Period, default=Period.MONTH)
    unit = models.CharField(max_length=8, choices=Unit, default=Unit.USD)
    enabled = models.BooleanField(default=True)
    #: In 1e-9 USD or tokens, as are `spent` and `reserved`.
    limit = models.BigIntegerField()
    spent = models.BigIntegerField(default=0, editable=False)
    reserved = models.BigIntegerField(default=0, editable=False)
    #: Start of the period that `spent` belongs to.
    period_start = models.DateTimeField(db_default=Now(), editable=False)
    #: Soft limits: who is told when the spending passes one of these percentages.
    warn_percents = ArrayField(models.PositiveSmallIntegerField(), default=list, blank=True)
    warn_emails = ArrayField(models.EmailField(), default=list, blank=True)
    warn_webhook = models.URLField(blank=True)
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


class Reservation(models.Model):
    """What an admitted request holds of one budget until it is over."""

    pk = models.CompositePrimaryKey("admission", "budget_id")
    admission = models.UUIDField()
    budget = models.ForeignKey(Budget, on_delete=models.CASCADE)
    #: In the budget's unit.
    amount = models.BigIntegerField()
    worker = models.CharField(max_length=64)
    made_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [models.CheckConstraint(condition=Q(amount__gte=0), name="usage_reservation_not_negative")]

    def __str__(self) -> str:
        return f"{self.amount} of {self.budget_id} for {self.admission}"
