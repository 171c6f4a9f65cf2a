from typing import Any

from django.conf import settings
from django.contrib import admin
from django.urls import include, path

from bridgeproject import model_check
from bridgeproject.playground import play
from bridgeproject.sockets import has_shown_second_factor
from translator.api import api
from usage.consumers import LiveConsumer
from usage.live import LiveFeed

urlpatterns = [
    path("admin/playground/", play, name="playground"),
    path("admin/model-check/", model_check.show, name="model-check"),
    path("admin/model-check/one/", model_check.show_one, name="model-check-one"),
    path("admin/model-check/conclusion/", model_check.show_conclusion, name="model-check-conclusion"),
    path("admin/usage/", include("usage.pages.urls")),
    path("admin/", admin.site.urls),
    path("usage/", include("usage.urls")),
    path("", include("members.urls")),
    path("", api.urls),
]
if settings.OIDC_ISSUER:
    urlpatterns.append(path("sso/", include("members.single_sign_on_urls")))

handler404 = "bridgeproject.not_found.not_found"

_live = LiveConsumer.as_asgi(feed=LiveFeed(settings.DATABASE_CONNINFO), is_proven=has_shown_second_factor)
websocket_urlpatterns: list[Any] = [path("ws/live/", _live)]
