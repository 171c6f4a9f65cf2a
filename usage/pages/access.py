"""Who opens these pages, and what they have in common."""

from collections.abc import Callable
from typing import Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.views.decorators.http import require_POST, require_safe

from usage.visibility import may_open_pages

View = Callable[..., HttpResponse]


def for_staff(view: View) -> View:
    """Let in whom `may_open_pages` lets in; others are sent to the login or told that they may not."""
    return _for_staff(require_safe(view))


def posted_by_staff(view: View) -> View:
    """Let the same people change something."""
    return _for_staff(require_POST(view))


def _for_staff(view: View) -> View:
    def checked(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if not may_open_pages(request.user):
            raise PermissionDenied
        return view(request, *args, **kwargs)

    return admin.site.admin_view(checked)


def shown(request: HttpRequest, template: str, title: str, *, status: int = 200, **context: Any) -> TemplateResponse:
    """Answer with a page in the admin's frame."""
    frame = admin.site.each_context(request)
    answer = TemplateResponse(request, template, {**frame, "title": title, **context}, status=status)
    answer.headers["Cache-Control"] = "no-store"
    return answer
