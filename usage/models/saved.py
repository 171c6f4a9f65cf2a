"""Reports that somebody wants to see again."""

from django.conf import settings
from django.contrib.auth.models import Group
from django.db import models
from django.db.models.functions import Now

QUERY_MAX = 2_000


class SavedReport(models.Model):
    """The filters and groups of a report under a name."""

    name = models.CharField(max_length=80)
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    #: Its members see it too; what it shows them is what they may see.
    team = models.ForeignKey(Group, null=True, on_delete=models.SET_NULL, related_name="+")
    #: What the report's address asks for, without the days.
    query = models.CharField(max_length=QUERY_MAX)
    #: So many days up to the day on which it is opened; NULL while `query` names the days.
    days = models.PositiveSmallIntegerField(null=True)
    made_at = models.DateTimeField(db_default=Now())

    class Meta:
        ordering = ["name", "pk"]
        constraints = [models.UniqueConstraint(fields=["owner", "name"], name="usage_savedreport_named_once")]

    def __str__(self) -> str:
        return self.name
