"""What the app's own admin pages share."""

from typing import Any

from django.db.models import Model
from django.http import HttpRequest
from django.template.response import TemplateResponse
from unfold.admin import ModelAdmin


def object_page(
    admin: ModelAdmin, request: HttpRequest, row: Model | None, template: str, title: str, **context: Any
) -> TemplateResponse:
    """Render a page about one row, or about none, within the admin's frame."""
    frame = {**admin.admin_site.each_context(request), "title": title, "opts": admin.opts, "original": row}
    return TemplateResponse(request, template, frame | context)
