"""Calls that an administrator asks for: a small request with one credential, the list of an upstream's models.

They go the same guarded way as every other call, on a loop of their own, since the admin's views are synchronous.
"""

import asyncio
import time
from collections.abc import Sequence

import orjson

from keys.entries import CredentialEntry, UpstreamEntry
from keys.outside import Listed, Tested, Unanswered
from translator.core.masking import mask
from translator.upstream import MAX_ERROR_BYTES, Answer, Clocks, UpstreamClient, UpstreamFault

CLOCKS = Clocks(connect_s=5, first_byte_s=20, gap_s=10, total_s=30)
LIST_BYTES_MAX = 8 * 1024 * 1024
MODELS_MAX = 2000
MAX_TOKENS = 16
WORDS_CHARS_MAX = 500
#: Where upstreams write a model's limits in their lists.
WINDOW_FIELDS = ("context_length", "context_window", "max_model_len", "max_context_length")
OUTPUT_FIELDS = ("max_output_tokens", "max_completion_tokens")


class Prober:
    """Calls upstreams on behalf of an administrator.

    Args:
        allowed: Private hosts and networks that upstreams may have.
    """

    def __init__(self, *, allowed: Sequence[str]) -> None:
        self._allowed = allowed

    def try_credential(self, upstream: UpstreamEntry, credential: CredentialEntry, model: str) -> Tested:
        """Ask for a few tokens, and tell how it went."""
        return asyncio.run(self._try(upstream, credential, model))

    def list_models(self, upstream: UpstreamEntry, credential: CredentialEntry) -> list[Listed]:
        """Ask which models there are.

        Raises:
            Unanswered: No list came.
        """
        status, body = asyncio.run(self._get_models(upstream, credential))
        if status != 200:
            msg = f"status {status}: {_told(body, credential)}"
            raise Unanswered(msg)
        return _listed(body)

    async def _try(self, upstream: UpstreamEntry, credential: CredentialEntry, model: str) -> Tested:
        path, request = _small_request(upstream.dialect, model)
        client = UpstreamClient(allowed=self._allowed)
        began = time.monotonic()
        status, words = None, ""
        try:
            until = asyncio.get_running_loop().time() + CLOCKS.total_s
            answer = await client.post(
                upstream.base_url + path,
                _headers(upstream, credential),
                orjson.dumps(request),
                clocks=CLOCKS,
                until=until,
            )
            status, body = answer.status, await _read(answer, until, MAX_ERROR_BYTES)
            words = "" if status == 200 else _told(body, credential)
        except (UpstreamFault, TimeoutError) as exc:
            words = _fault(exc)
        finally:
            await client.aclose()
        took_ms = round((time.monotonic() - began) * 1000)
        return Tested(is_ok=status == 200, status=status, duration_ms=took_ms, words=words)

    async def _get_models(self, upstream: UpstreamEntry, credential: CredentialEntry) -> tuple[int, bytes]:
        client = UpstreamClient(allowed=self._allowed)
        until = asyncio.get_running_loop().time() + CLOCKS.total_s
        try:
            answer = await client.get(
                f"{upstream.base_url}/models", _headers(upstream, credential), clocks=CLOCKS, until=until
            )
            return answer.status, await _read(answer, until, LIST_BYTES_MAX)
        except (UpstreamFault, TimeoutError) as exc:
            raise Unanswered(_fault(exc)) from exc
        finally:
            await client.aclose()


async def _read(answer: Answer, until: float, limit: int) -> bytes:
    try:
        return await answer.read_all(until=until, limit=limit)
    finally:
        await answer.aclose()


def _small_request(dialect: str, model: str) -> tuple[str, dict[str, object]]:
    """Return the path and the body of the smallest request that makes sense in the dialect."""
    if dialect == "openai_responses":
        return "/responses", {"model": model, "input": "Say hi.", "max_output_tokens": MAX_TOKENS}
    messages = [{"role": "user", "content": "Say hi."}]
    body: dict[str, object] = {"model": model, "messages": messages, "max_tokens": MAX_TOKENS}
    return ("/messages" if dialect == "anthropic" else "/chat/completions"), body


def _headers(upstream: UpstreamEntry, credential: CredentialEntry) -> dict[str, str]:
    headers = {"content-type": "application/json", "accept": "application/json"}
    if upstream.dialect == "anthropic":
        return headers | {"x-api-key": credential.secret(), "anthropic-version": "2023-06-01"}
    return headers | {"authorization": f"Bearer {credential.secret()}"}


def _fault(fault: Exception) -> str:
    """Name a fault without a library's own words, which may quote headers."""
    return {
        "UpstreamRefused": "its address may not be called",
        "UpstreamUnreachable": "no connection",
        "UpstreamTimedOut": "no answer in time",
        "UpstreamUnreadable": "its answer is in an encoding that can't be read",
        "TimeoutError": "no answer in time",
    }.get(type(fault).__name__, "the connection broke")


def _told(body: bytes, credential: CredentialEntry) -> str:
    """Return what an error body says, fit for a page: no secret, no markup, not too long."""
    return mask(_words(body), [credential.secret()])[:WORDS_CHARS_MAX]


def _words(body: bytes) -> str:
    """Return what an error body says, whatever its shape."""
    try:
        read = orjson.loads(body)
    except ValueError:
        return body.decode("utf-8", "replace")
    match read:
        case {"error": {"message": str(message)}} | {"error": str(message)} | {"message": str(message)}:
            return message
        case _:
            return body.decode("utf-8", "replace")


def _listed(body: bytes) -> list[Listed]:
    try:
        read = orjson.loads(body)
    except ValueError as exc:
        msg = "its answer is no JSON"
        raise Unanswered(msg) from exc
    match read:
        case {"data": list(models)} | {"models": list(models)} | list(models):
            pass
        case _:
            msg = "its answer holds no list of models"
            raise Unanswered(msg)
    named = [model for model in models if isinstance(model, dict) and _is_name(model.get("id"))]
    return [
        Listed(
            name=model["id"],
            context_window=_number(model, WINDOW_FIELDS),
            max_output_tokens=_number(model, OUTPUT_FIELDS),
        )
        for model in named[:MODELS_MAX]
    ]


def _is_name(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= 200 and value.isprintable()


def _number(model: dict[str, object], names: Sequence[str]) -> int | None:
    """Return the first of the fields that holds a sensible number of tokens."""
    values = (model.get(name) for name in names)
    return next((v for v in values if isinstance(v, int) and not isinstance(v, bool) and 0 < v < 2**31), None)
