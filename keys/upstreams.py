"""Writing upstreams."""

from django.conf import settings
from django.core.exceptions import ValidationError

from keys.egress import RefusedURL, check_base_url
from keys.models import Dialect, Upstream


class UpstreamExists(Exception):
    """There is an upstream of that name."""

    def __init__(self, upstream: Upstream, *, differs: bool) -> None:
        what = f"with another base URL or dialect ({upstream.base_url})" if differs else "already"
        super().__init__(f"upstream {upstream.name} exists {what}")
        self.upstream = upstream
        #: Its base URL or dialect is another one.
        self.differs = differs


def add_upstream(name: str, base_url: str, *, dialect: str = Dialect.OPENAI_CHAT.value, profile: str = "") -> Upstream:
    """Store a new upstream.

    Raises:
        UpstreamExists: The name is taken.
        ValidationError: The base URL may not be called, or another field is wrong.
    """
    try:
        base_url = check_base_url(base_url, settings.ALLOW_PRIVATE_UPSTREAMS)
    except RefusedURL as exc:
        raise ValidationError({"base_url": str(exc)}) from exc
    if (known := Upstream.objects.filter(name=name).first()) is not None:
        raise UpstreamExists(known, differs=(known.base_url, known.dialect) != (base_url, dialect))
    upstream = Upstream(name=name, base_url=base_url, dialect=dialect, profile=profile)
    upstream.full_clean()
    upstream.save()
    return upstream
