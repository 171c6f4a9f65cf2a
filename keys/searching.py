"""Lists of the admin whose searches end within a second, however much there is to search."""

from typing import Any

from django.contrib import messages
from django.contrib.admin.views.main import SEARCH_VAR
from django.db import OperationalError, connection, transaction
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import SimpleTemplateResponse
from psycopg.errors import QueryCanceled

#: For each statement. Two of a page may look at every row: the one that counts, and the one that shows.
STATEMENT_MS = 400
STOPPED = "The search took too long and was stopped. Search for a longer part of the name, or narrow the list by filters first."


class SearchInTime:
    """Goes before `ModelAdmin`: stops a search that takes too long, and says so."""

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        if request.method != "GET" or not request.GET.get(SEARCH_VAR):
            return self._shown(request, extra_context)
        try:
            with transaction.atomic():
                with connection.cursor() as cursor:
                    cursor.execute(f"SET LOCAL statement_timeout = {STATEMENT_MS}")
                page = self._shown(request, extra_context)
                # The rows are read when the page is rendered.
                return page.render() if isinstance(page, SimpleTemplateResponse) else page
        except OperationalError as exc:
            if not isinstance(exc.__cause__, QueryCanceled):
                raise
        messages.warning(request, STOPPED)
        words = request.GET.copy()
        del words[SEARCH_VAR]
        return HttpResponseRedirect(f"{request.path}?{words.urlencode()}")

    def _shown(self, request: HttpRequest, extra_context: dict[str, Any] | None) -> HttpResponse:
        page: HttpResponse = super().changelist_view(request, extra_context)  # type: ignore[misc]  # of `ModelAdmin`
        return page
