from typing import Any

from django.contrib import admin
from django.urls import path

urlpatterns = [
    path("admin/", admin.site.urls),
]

websocket_urlpatterns: list[Any] = []
