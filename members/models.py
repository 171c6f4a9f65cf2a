"""What happened to rights and secrets, and who failed to log in."""

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models.functions import Now


class AuditEntry(models.Model):
    """One change of one row, written by a trigger in the transaction that changed it; never changed itself.

    Holds names of things and of fields, and no values.
    """

    class Action(models.TextChoices):
        ADDED = "added", "added"
        CHANGED = "changed", "changed"
        DELETED = "deleted", "deleted"

    at = models.DateTimeField(db_default=Now())
    #: Empty when nobody was logged in: a command, or SQL.
    actor = models.CharField(max_length=150, blank=True)
    address = models.CharField(max_length=64, blank=True)
    action = models.CharField(max_length=8, choices=Action)
    kind = models.CharField(max_length=40)
    subject_id = models.CharField("id", max_length=40)
    before = models.CharField("name before", max_length=300, blank=True)
    after = models.CharField("name after", max_length=300, blank=True)
    fields = ArrayField(models.CharField(max_length=63), default=list)

    class Meta:
        ordering = ["-id"]
        verbose_name = "audit entry"
        verbose_name_plural = "audit entries"
        indexes = [
            models.Index(fields=["kind", "subject_id"], name="members_audit_subject"),
            models.Index(fields=["actor"], name="members_audit_actor"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.after or self.before} {self.action}"


class LoginFailure(models.Model):
    """Wrong passwords for one name from one address."""

    username = models.CharField(max_length=150)
    address = models.CharField(max_length=64)
    failures = models.PositiveIntegerField(default=1)
    #: When the first of them came.
    since = models.DateTimeField(db_default=Now(), db_index=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["username", "address"], name="members_loginfailure_pair")]

    def __str__(self) -> str:
        return f"{self.username} from {self.address}: {self.failures}"
