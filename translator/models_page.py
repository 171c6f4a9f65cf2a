"""`GET /v1/models`: the model aliases as Anthropic lists models.

Claude Code asks with `limit=1000`, waits three seconds and shows only ids that begin with `claude` or `anthropic`.
Source: https://platform.claude.com/docs/en/api/models-list (read 2026-11-30).
"""

from collections.abc import Mapping, Sequence
from typing import Any

from keys.directory import Directory
from keys.entries import AliasEntry, TokenEntry
from translator import refusals
from translator.core.errors import InvalidRequest
from translator.relay import CallFailed, Gateway

LIMIT_DEFAULT = 20
LIMIT_MAX = 1000
#: Aliases have no date of release; clients sort by it, so it is the same for all.
CREATED_AT = "2026-01-01T00:00:00Z"


async def known_aliases(gateway: Gateway) -> list[AliasEntry]:
    """Return the named aliases, and the models that upstreams list where a route takes every name through."""
    named = [alias for alias in gateway.directory.aliases() if not alias.is_pattern]
    known = {alias.name for alias in named}
    listed = [name for name in await gateway.listed_models() if name not in known]
    return named + [
        AliasEntry(name=name, is_pattern=False, context_window=None, max_output_tokens=None) for name in listed
    ]


def render_list(aliases: Sequence[AliasEntry], token: TokenEntry, query: Mapping[str, str]) -> dict[str, Any]:
    """Return one page of the aliases that `token` may use.

    Raises:
        InvalidRequest: The limit or a cursor makes no sense.
    """
    names = {alias.name: alias for alias in aliases if token.may_use(alias.name)}
    ids = sorted(names)
    limit = _limit(query)
    start, end = 0, len(ids)
    if after := query.get("after_id"):
        start = _place(ids, "after_id", after) + 1
    if before := query.get("before_id"):
        end = _place(ids, "before_id", before)
        start = max(start, end - limit)
    page = ids[start:end][:limit]
    has_more = start > 0 if query.get("before_id") else start + len(page) < end
    return {
        "data": [render(names[name]) for name in page],
        "has_more": has_more,
        "first_id": page[0] if page else None,
        "last_id": page[-1] if page else None,
        "object": "list",
    }


def render_one(directory: Directory, token: TokenEntry, name: str) -> dict[str, Any]:
    """Return one alias, listed or taken by a pattern.

    Raises:
        CallFailed: No route takes it, or the token may not use it.
    """
    route = directory.resolve(name)
    if route is None or not token.may_use(name):
        raise CallFailed(refusals.unknown_model(name))
    model = route.targets[0].model if route.targets else None
    return render(
        AliasEntry(
            name=name,
            is_pattern=False,
            context_window=model.context_window if model else None,
            max_output_tokens=model.max_output_tokens if model else None,
        )
    )


def render(alias: AliasEntry) -> dict[str, Any]:
    return {
        "type": "model",
        "id": alias.name,
        "display_name": alias.name,
        "created_at": CREATED_AT,
        "lifecycle": "active",
        "max_input_tokens": alias.context_window,
        "max_tokens": alias.max_output_tokens,
        "capabilities": None,
        # For OpenAI's clients, which list models at the same path.
        "object": "model",
        "owned_by": "bridge",
    }


def _limit(query: Mapping[str, str]) -> int:
    text = query.get("limit", str(LIMIT_DEFAULT))
    if not text.isdecimal() or not 1 <= int(text) <= LIMIT_MAX:
        msg = "limit"
        raise InvalidRequest(msg, f"must be a whole number from 1 to {LIMIT_MAX}")
    return int(text)


def _place(ids: Sequence[str], parameter: str, cursor: str) -> int:
    try:
        return ids.index(cursor)
    except ValueError:
        raise InvalidRequest(parameter, "is not the id of a model") from None
