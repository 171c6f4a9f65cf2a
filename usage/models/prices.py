"""What tokens cost."""

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

#: What a kind of tokens without a price of its own counts as.
COUNTS_AS = {"cache_read": "input", "cache_write": "input", "cache_write_1h": "cache_write", "thinking": "output"}


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
    cache_write_1h_price = models.BigIntegerField(null=True, blank=True, help_text="Empty: as cache write.")
    thinking_price = models.BigIntegerField(null=True, blank=True, help_text="Empty: as output.")
    #: Requests whose input, cached tokens included, is longer than so many tokens have the prices below for all of it.
    long_above = models.IntegerField(null=True, blank=True)
    long_input_price = models.BigIntegerField(null=True, blank=True)
    long_output_price = models.BigIntegerField(null=True, blank=True, help_text="Empty: as output.")
    #: Empty: as much more as input.
    long_cache_read_price = models.BigIntegerField(null=True, blank=True)
    long_cache_write_price = models.BigIntegerField(null=True, blank=True)
    long_cache_write_1h_price = models.BigIntegerField(null=True, blank=True)
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
            models.CheckConstraint(
                condition=Q(long_above__isnull=True, long_input_price__isnull=True)
                | Q(long_above__gt=0, long_input_price__gte=0),
                name="usage_price_long_whole",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.upstream_model} from {self.valid_from:%Y-%m-%d}"

    def per_token(self, kind: str, input_tokens: int) -> int:
        """Return the price of a kind of tokens, in 1e-12 USD; `usage.statements.cost_expression` says the same in Postgres.

        Args:
            kind: `input`, `cache_read`, `cache_write`, `cache_write_1h`, `output` or `thinking`.
            input_tokens: The whole input of the request, cached tokens included.
        """
        short = self._short(kind)
        if self.long_above is None or self.long_input_price is None or input_tokens <= self.long_above:
            return short
        if kind in ("output", "thinking"):
            return short if self.long_output_price is None else self.long_output_price
        own: int | None = getattr(self, f"long_{kind}_price")
        if own is None:
            return short * self.long_input_price // self.input_price if self.input_price else short
        return own

    def _short(self, kind: str) -> int:
        """Return the price of a kind, or of the one that it counts as."""
        own: int | None = getattr(self, f"{kind}_price")
        return self._short(COUNTS_AS[kind]) if own is None else own
