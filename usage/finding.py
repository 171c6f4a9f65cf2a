"""Find a request by what it is called: by us, or by its client."""

from django.db.models import QuerySet

from usage.models import UsageRecord


def of_request(records: QuerySet[UsageRecord], name: str) -> UsageRecord | None:
    """Return a record of the request with our id `name`, else of the newest that its client called so; or None.

    Asked one after the other, so that each question has its index.
    """
    name = name.replace("\x00", "")
    if not name:
        return None
    ours = records.filter(request_id=name).order_by("-id").first()
    return ours or records.filter(client_request_id=name).order_by("-id").first()
