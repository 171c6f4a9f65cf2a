"""The project's own addresses: the admin's side bar leads to pages of every app."""

from bridgeproject.urls import urlpatterns

__all__ = ["urlpatterns"]
