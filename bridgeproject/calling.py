"""A client of a running gateway, wherever it runs: asks, and reads what the gateway recorded of it."""

import asyncio
from dataclasses import replace
from typing import Any, Self
from urllib.parse import quote

import httpx

from translator.checking import DEADLINE_S
from translator.core.events import UsageSource
from translator.core.model_checks.checks import Check
from translator.core.model_checks.heard import Heard, hear_error, hear_stream, hear_whole

#: A record is settled so soon after the answer's end, in seconds; it is looked for so often.
SETTLED_WITHIN_S = 5.0
LOOK_EVERY_S = 0.1


class Unusable(Exception):
    """The gateway can't be asked; the text says why."""


class GatewayClient:
    """Calls a gateway with a client token.

    Args:
        url: Where it is, without `/v1`.
        token: Goes into the header, and nowhere else.
        deadline_s: No answer is waited for any longer.
    """

    def __init__(self, url: str, token: str, *, deadline_s: float = DEADLINE_S) -> None:
        headers = {"x-api-key": token, "user-agent": "bridge-model-check/1", "content-type": "application/json"}
        self._deadline_s = deadline_s
        # Our own deadline comes first, so that it is what is told.
        self._http = httpx.AsyncClient(base_url=url, headers=headers, timeout=deadline_s * 2, trust_env=False)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._http.aclose()

    async def expect_alias(self, alias: str) -> None:
        """Make sure that there is a gateway, which takes the token and knows the alias.

        Raises:
            Unusable: It isn't so.
        """
        try:
            answer = await self._http.get(f"/v1/models/{quote(alias, safe='')}")
        except httpx.HTTPError as exc:
            msg = f"no gateway answers there: {type(exc).__name__}"
            raise Unusable(msg) from exc
        if answer.status_code != 200:
            raise Unusable(hear_error(answer.status_code, answer.content).error)

    async def ask(self, check: Check, body: bytes) -> Heard:
        """Ask what a check asks, and tell all that is known of the answer."""
        try:
            async with asyncio.timeout(self._deadline_s):
                answer = await self._http.post("/v1/messages", content=body)
        except TimeoutError:
            return Heard(status=0, error=f"no end after {self._deadline_s:.0f} seconds")
        except httpx.HTTPError as exc:
            return Heard(status=0, error=f"the connection to the gateway broke: {type(exc).__name__}")
        request_id = answer.headers.get("request-id", "")
        if answer.status_code != 200:
            heard = hear_error(answer.status_code, answer.content)
        else:
            heard = (hear_stream if check.stream else hear_whole)(answer.content)
        return replace(heard, request_id=request_id, **await self._recorded(request_id))

    async def _recorded(self, request_id: str) -> dict[str, Any]:
        """Return what the gateway recorded of the last attempt; nothing where it doesn't tell."""
        until = asyncio.get_running_loop().time() + SETTLED_WITHIN_S
        while asyncio.get_running_loop().time() < until:
            try:
                answer = await self._http.get(f"/usage/api/requests/{quote(request_id, safe='')}")
                last = answer.raise_for_status().json()["attempts"][-1]
            except (httpx.HTTPError, ValueError, LookupError, TypeError):
                return {}
            if last["state"] != "open":
                return {
                    "usage_source": UsageSource(last["source"]),
                    "notes": last["notes"],
                    "served_by": f"{last['upstream_name']}/{last['upstream_model']}",
                }
            await asyncio.sleep(LOOK_EVERY_S)
        return {}
