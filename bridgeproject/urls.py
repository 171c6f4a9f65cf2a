from typing import Any

from django.contrib import admin
from django.urls import path

from translator.api import api

urlpatterns = [
    path("admin/", admin.site.urls),
    path("", api.urls),
]

websocket_urlpatterns: list[Any] = []
