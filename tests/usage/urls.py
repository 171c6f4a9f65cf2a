"""The admin and the usage API alone, so that these tests need no gateway."""

from django.contrib import admin
from django.urls import include, path

urlpatterns = [path("admin/", admin.site.urls), path("usage/", include("usage.urls"))]
