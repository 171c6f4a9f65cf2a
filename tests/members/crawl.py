"""Every address of the admin and of the members' pages, found from the URL table, so that a new page is crawled too."""

from collections.abc import Iterator

from django.db.models import Model
from django.urls import NoReverseMatch, URLPattern, URLResolver, get_resolver, reverse
from django.utils.regex_helper import normalize

#: What stands for a parameter where the table names no row.
FILLERS = {"session_id": "some-session", "content_type_id": 1, "object_id": 1, "app_label": "keys", "pk": 1, "url": ""}
#: Nothing to see, or ends the session.
LEFT_OUT = {"admin:logout", "members:logout"}
#: Whole namespaces that other tests walk.
NAMESPACES_LEFT_OUT = {"api"}


def addresses(rows: dict[str, Model]) -> list[tuple[str, str]]:
    """Return name and address of each page; `rows` are by app_model, as in the names of the admin's URLs."""
    found = []
    for name, parameters in _patterns(get_resolver(), ""):
        if name in LEFT_OUT:
            continue
        values = {key: _value(name, key, rows) for key in parameters}
        try:
            found.append((name, reverse(name, kwargs=values)))
        except NoReverseMatch:
            continue
    return found


def _value(name: str, key: str, rows: dict[str, Model]) -> object:
    page = name.partition(":")[2]
    row = next((row for prefix, row in rows.items() if page.startswith(f"{prefix}_")), None)
    if row is not None and key in ("object_id", "id", "pk"):
        return row.pk
    if key == "pk" and page.startswith("token-"):
        return rows["keys_clienttoken"].pk
    return FILLERS.get(key, 1)


def _patterns(resolver: URLResolver, namespace: str) -> Iterator[tuple[str, list[str]]]:
    for pattern in resolver.url_patterns:
        if isinstance(pattern, URLResolver):
            inner = pattern.namespace
            if inner not in NAMESPACES_LEFT_OUT:
                yield from _patterns(pattern, f"{namespace}{inner}:" if inner else namespace)
        elif isinstance(pattern, URLPattern) and pattern.name:
            (_, parameters), *_ = normalize(pattern.pattern.regex.pattern)
            yield f"{namespace}{pattern.name}", list(parameters)
