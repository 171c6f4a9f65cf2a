"""The models that upstreams list, for routes that take every name through.

Clients ask for the list of models and wait three seconds, so it is kept here and asked for again now and then.
"""

import asyncio
import logging
from dataclasses import dataclass

import orjson

from keys.entries import CredentialEntry, UpstreamEntry
from translator.upstream import Clocks, UpstreamClient, UpstreamFault

logger = logging.getLogger(__name__)

#: How long a list is good for, and how soon a failed question is asked again, in seconds.
FRESH_S = 300.0
RETRY_S = 20.0
#: How long a client's question waits for an upstream's answer, in seconds.
WAIT_S = 2.0
MODELS_MAX = 1000
LIST_BYTES_MAX = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class _Listed:
    names: tuple[str, ...]
    good_until: float


class Catalogue:
    """Knows which models each upstream says it has."""

    def __init__(self, client: UpstreamClient) -> None:
        self._client = client
        self._listed: dict[int, _Listed] = {}

    async def models(self, upstream: UpstreamEntry, credential: CredentialEntry) -> tuple[str, ...]:
        """Return the upstream's models; those it listed last where it doesn't answer now."""
        now = asyncio.get_running_loop().time()
        known = self._listed.get(upstream.id, _Listed(names=(), good_until=0.0))
        if now < known.good_until:
            return known.names
        try:
            names, good_for_s = await self._ask(upstream, credential), FRESH_S
        except (UpstreamFault, TimeoutError, ValueError) as exc:
            logger.info("upstream %s lists no models: %s", upstream.name, type(exc).__name__)
            names, good_for_s = known.names, RETRY_S
        self._listed[upstream.id] = _Listed(names=names, good_until=now + good_for_s)
        return names

    async def _ask(self, upstream: UpstreamEntry, credential: CredentialEntry) -> tuple[str, ...]:
        until = asyncio.get_running_loop().time() + WAIT_S
        headers = {"authorization": f"Bearer {credential.secret()}", "accept": "application/json"}
        url = f"{upstream.base_url.rstrip('/')}/models"
        answer = await self._client.get(url, headers, clocks=Clocks(connect_s=WAIT_S), until=until)
        try:
            if answer.status != 200:
                msg = f"status {answer.status}"
                raise ValueError(msg)
            return _names(orjson.loads(await answer.read_all(until=until, limit=LIST_BYTES_MAX)))
        finally:
            await answer.aclose()


def _names(listed: object) -> tuple[str, ...]:
    match listed:
        case {"data": list(models)} | {"models": list(models)} | list(models):
            ids = (model.get("id") for model in models if isinstance(model, dict))
            return tuple(name for name in ids if isinstance(name, str) and name)[:MODELS_MAX]
        case _:
            return ()
