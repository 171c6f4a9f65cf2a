"""The usage API; the project includes it as `usage/`."""

from django.urls import path

from usage import views

app_name = "usage"
urlpatterns = [
    path("api/report", views.report_view, name="report"),
    path("api/answers", views.answers_view, name="answers"),
    path("api/sessions", views.sessions_view, name="sessions"),
    path("api/records", views.records_view, name="records"),
    path("api/requests/<str:request_id>", views.request_view, name="request"),
]
