"""Paths that lead nowhere: a page for people, and the API's words for programs that got their base URL wrong."""

from django.http import HttpRequest, HttpResponse
from django.views.defaults import page_not_found

from translator import refusals
from translator.api import error_response
from translator.calls import new_id


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    if "text/html" in request.headers.get("accept", ""):
        return page_not_found(request, exception)
    request_id = new_id("req")
    response = error_response(request.path, refusals.not_found(request.path), request_id)
    response["request-id"] = request_id
    return response
