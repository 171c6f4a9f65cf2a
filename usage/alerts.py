"""Messages to an administrator, by mail and by webhook; warnings of soft limits, each percentage once per period."""

import asyncio
import logging
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from urllib.parse import urlsplit

import orjson
from django.conf import settings
from django.core.mail import send_mail

from keys.egress import RefusedURL, check_base_url, is_allowed_address
from usage.budgets import BudgetBook, BudgetEntry
from usage.connection import LedgerConnection

logger = logging.getLogger(__name__)

WEBHOOK_TIMEOUT_S = 5
#: So many things are named in one message; the others are counted.
NAMED_MAX = 20

#: (budget, percent): take it upon this worker to warn; of several workers one finds the row unchanged.
CLAIM = "UPDATE usage_budget SET warned_percent = $2 WHERE id = $1 AND warned_percent < $2"


@dataclass(frozen=True, slots=True, kw_only=True)
class Addresses:
    """Where to send it; with neither it is only logged."""

    emails: Sequence[str] = ()
    webhook: str = ""


async def warn_of_budgets(connection: LedgerConnection, book: BudgetBook) -> None:
    """Warn of each budget that has passed a soft limit."""
    for entry in book.budgets.values():
        if percent := entry.passed_percent:
            (cursor,) = await connection.run([(CLAIM, [entry.id, percent])])
            if cursor.rowcount == 1:
                await asyncio.to_thread(warn, entry, percent)


def warn(entry: BudgetEntry, percent: int) -> None:
    """Tell of a soft limit that was passed."""
    text = f"Budget {entry.name!r} ({entry.subject}, per {entry.period}) has passed {percent} %."
    facts = {"budget": entry.name, "percent": percent, "spent": entry.spent, "limit": entry.limit}
    tell(
        f"Budget {entry.name} at {percent} %",
        text,
        emails=entry.warn_emails,
        webhook=entry.warn_webhook,
        body=orjson.dumps(facts | {"unit": entry.unit, "text": text}),
    )


def tell(subject: str, text: str, *, emails: Sequence[str], webhook: str, body: bytes) -> None:
    """Send the mail and call the webhook; what fails is logged, and holds nothing up."""
    logger.warning("%s", text)
    if emails:
        try:
            send_mail(subject, text, None, list(emails))
        except (OSError, ValueError) as exc:  # SMTP errors are among the first; an address may be none
            logger.error("the warning could not be mailed: %s", exc)
    if webhook:
        try:
            call_webhook(webhook, body)
        except (OSError, HTTPException, RefusedURL) as exc:
            logger.error("the webhook for %r could not be called: %s", subject, exc)


def listed(texts: Sequence[str]) -> list[str]:
    """Return the lines of a message that name what it is about, and count what isn't named."""
    rest = len(texts) - NAMED_MAX
    return [*texts[:NAMED_MAX], *([f"and {rest} more"] if rest > 0 else [])]


def call_webhook(url: str, body: bytes) -> None:
    """POST the body; follow no redirect, and connect to no address that upstreams could not have either.

    Raises:
        RefusedURL: The URL leads where Bridge may not connect.
        OSError: The connection failed, or the answer wasn't a success.
    """
    allowed = settings.ALLOW_PRIVATE_UPSTREAMS
    parts = urlsplit(check_base_url(url, allowed))
    host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
    address = str(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][4][0])
    if not is_allowed_address(address, allowed):
        msg = "the webhook's host has a private address"
        raise RefusedURL(msg)
    kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    connection = kind(host, port, timeout=WEBHOOK_TIMEOUT_S)
    # The address that was checked is the one to be called, whatever the name's owner says a moment later.
    connection._create_connection = lambda _, *rest: socket.create_connection((address, port), *rest)  # type: ignore[attr-defined]  # http.client's own seam
    try:
        connection.request("POST", parts.path or "/", body, {"content-type": "application/json"})
        status = connection.getresponse().status
    finally:
        connection.close()
    if status >= HTTPStatus.MULTIPLE_CHOICES:
        msg = f"the webhook answered {status}"
        raise OSError(msg)
