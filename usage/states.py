"""How an attempt stands, and where its token numbers come from."""

from django.db import models


class State(models.TextChoices):
    """`OPEN` is left once, for one of the others; none of those is ever left."""

    OPEN = "open", "open"
    OK = "ok", "ok"
    CLIENT_GONE = "client_gone", "client gone"
    UPSTREAM_ERROR = "upstream_error", "upstream error"
    TRUNCATED = "truncated", "truncated"
    TIMEOUT = "timeout", "timeout"
    REFUSED = "refused", "refused"
    LOST = "lost", "lost"


class Source(models.TextChoices):
    """Who counted the tokens: the upstream to the end, the upstream so far, we ourselves, or nobody."""

    UPSTREAM = "upstream", "upstream"
    PARTIAL = "partial", "partial"
    ESTIMATED = "estimated", "estimated"
    UNKNOWN = "unknown", "unknown"


#: States that count as an error in reports; a client that leaves is none.
ERROR_STATES = (State.UPSTREAM_ERROR, State.TRUNCATED, State.TIMEOUT, State.REFUSED, State.LOST)
