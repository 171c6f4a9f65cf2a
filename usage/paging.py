"""Pages over many records without counting them all."""

from functools import cached_property
from typing import Any

from django.contrib.admin.views.main import ChangeList
from django.core.paginator import Paginator
from django.db.models import Model, QuerySet
from django.http import HttpRequest

#: What is farther than this is found by filters, not by turning pages: an offset reads all rows before it.
COUNT_MAX = 10_000


class CappedPaginator(Paginator):  # type: ignore[type-arg]  # generic in the stubs only
    """Counts up to `COUNT_MAX` rows and shows no more than those."""

    @cached_property
    def count(self) -> int:
        rows: QuerySet[Model] = self.object_list  # type: ignore[assignment]  # the admin pages querysets only
        return rows.order_by().values("pk")[:COUNT_MAX].count()

    @property
    def is_capped(self) -> bool:
        """Tell whether there may be more rows than are counted."""
        return self.count == COUNT_MAX


class CappedList:
    """Goes before `ModelAdmin`: a list of ever so many rows, in one order."""

    list_per_page = 50
    list_max_show_all = 50
    paginator = CappedPaginator
    show_full_result_count = False
    sortable_by: tuple[str, ...] = ()

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        changelist: ChangeList = super().get_changelist_instance(request)  # type: ignore[misc]  # of `ModelAdmin`
        if not changelist.query and not changelist.has_active_filters:
            # The page then offers no way to show all.
            changelist.full_result_count = changelist.result_count
        return changelist
