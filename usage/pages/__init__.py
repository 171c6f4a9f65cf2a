"""The pages about usage in the admin: the dashboard, reports, one request, an incident."""
