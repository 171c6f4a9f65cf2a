"""Which names of models lead to which upstreams."""

from django.db import models
from django.db.models import Q

from keys.models.upstreams import Upstream


class Route(models.Model):
    """The name that clients send, and where it leads."""

    alias = models.CharField(
        max_length=200, unique=True, help_text="A name, a pattern such as claude-*, or * for every name."
    )
    enabled = models.BooleanField(default=True)

    class Meta:
        ordering = ["alias"]
        constraints = [
            models.CheckConstraint(
                name="keys_route_star_is_last",
                condition=Q(alias__regex=r"^[^*[:space:]]*[*]?$") & ~Q(alias=""),
                violation_error_message="An alias is a name, a pattern such as claude-*, or * for every name.",
            ),
        ]

    def __str__(self) -> str:
        return self.alias


class RouteTarget(models.Model):
    """An upstream model that a route leads to."""

    route = models.ForeignKey(Route, on_delete=models.CASCADE, related_name="targets")
    position = models.PositiveSmallIntegerField(
        default=0, help_text="The lowest serves; the next are its fallbacks. Equal ones share by weight."
    )
    upstream = models.ForeignKey(Upstream, on_delete=models.CASCADE, related_name="targets")
    upstream_model = models.CharField(
        max_length=200, blank=True, default="", help_text="Empty sends the client's own name on."
    )
    weight = models.PositiveSmallIntegerField(default=1)

    class Meta:
        ordering = ["position", "id"]
        constraints = [
            models.UniqueConstraint(name="keys_routetarget_unique", fields=["route", "upstream", "upstream_model"]),
            models.CheckConstraint(name="keys_routetarget_weight_positive", condition=Q(weight__gte=1)),
        ]

    def __str__(self) -> str:
        return f"{self.upstream.name}/{self.upstream_model or '(same name)'}"
