"""What tokens cost."""

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now


class Price(models.Model):
    """What an upstream model costs from a moment on. A new price is a new row: records name theirs by id.

    Unit: 1e-12 USD per token, which is the same as 1e-6 USD per million tokens. (Providers price cached tokens
    below 1e-9 USD; whole 1e-9 per token would be wrong by percents.)
    """

    upstream_id = models.BigIntegerField(null=True, blank=True, help_text="Empty: this model at any upstream.")
    upstream_model = models.CharField(max_length=200)
    valid_from = models.DateTimeField(db_default=Now())
    input_price = models.BigIntegerField(help_text="1e-6 USD per million tokens.")
    output_price = models.BigIntegerField(help_text="1e-6 USD per million tokens.")
    cache_read_price = models.BigIntegerField(null=True, blank=True, help_text="Empty: as input.")
    cache_write_price = models.BigIntegerField(null=True, blank=True, help_text="Empty: as input.")
    thinking_price = models.BigIntegerField(null=True, blank=True, help_text="Empty: as output.")
    origin = models.CharField(max_length=150, blank=True)

    class Meta:
        ordering = ["upstream_model", "-valid_from"]
        constraints = [
            models.UniqueConstraint(
                fields=["upstream_model", "upstream_id", "valid_from"],
                name="usage_price_dated_once",
                nulls_distinct=False,
            ),
            models.CheckConstraint(
                condition=Q(input_price__gte=0, output_price__gte=0)
                & (Q(cache_read_price__isnull=True) | Q(cache_read_price__gte=0))
                & (Q(cache_write_price__isnull=True) | Q(cache_write_price__gte=0))
                & (Q(thinking_price__isnull=True) | Q(thinking_price__gte=0)),
                name="usage_price_not_negative",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.upstream_model} from {self.valid_from:%Y-%m-%d}"
