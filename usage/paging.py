"""Pages over many records without counting them all."""

from functools import cached_property

from django.core.paginator import Paginator
from django.db.models import Model, QuerySet

#: What is farther than this is found by filters, not by turning pages: an offset reads all rows before it.
COUNT_MAX = 10_000


class CappedPaginator(Paginator):  # type: ignore[type-arg]  # generic in the stubs only
    """Counts up to `COUNT_MAX` rows and shows no more than those."""

    @cached_property
    def count(self) -> int:
        rows: QuerySet[Model] = self.object_list  # type: ignore[assignment]  # the admin pages querysets only
        return rows.order_by().values("pk")[:COUNT_MAX].count()
