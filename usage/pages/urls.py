"""The pages about usage; the project includes them as `admin/usage/`, before the admin itself."""

from django.urls import path

from usage.pages import answers, incident, reports, requests, saved

app_name = "usage_pages"
urlpatterns = [
    path("reports/", reports.show, name="report"),
    path("reports/saved/", saved.save, name="save_report"),
    path("reports/saved/<int:pk>/", saved.show, name="saved_report"),
    path("reports/saved/<int:pk>/delete/", saved.delete, name="delete_report"),
    path("answers/", answers.show, name="answers"),
    path("incident/", incident.show, name="incident"),
    path("requests/<path:request_id>/", requests.show, name="request"),
]
