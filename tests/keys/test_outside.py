"""What an administrator asks of upstreams, over real sockets; and that no call goes where it may not."""

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import aiohttp
import pytest
from aiohttp.abc import AbstractResolver, ResolveResult

from keys.outside import Listed, Unanswered
from tests.keys.pools import credential, upstream
from tests.upstream import ScriptedUpstream
from translator.probing import Prober, _listed
from translator.upstream import Clocks, GuardedResolver, UpstreamClient, UpstreamFault

CANARY = "sk-canary-9f8e7d6c5b4a"
CREDENTIAL = credential(1, opened=CANARY)
LOOPBACK = ["127.0.0.1"]


@contextmanager
def listener() -> Iterator[tuple[socket.socket, int]]:
    """A port of ours that counts who knocks."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.3)
        yield server, server.getsockname()[1]


def knocked(server: socket.socket) -> bool:
    try:
        server.accept()[0].close()
    except TimeoutError:
        return False
    return True


@pytest.mark.parametrize("dialect", ["openai_chat", "openai_responses", "anthropic"])
def test_a_good_credential_is_told_good_in_every_dialect(scripted: ScriptedUpstream, dialect: str) -> None:
    there = replace(upstream(), base_url=scripted.base_url, dialect=dialect)

    tested = Prober(allowed=LOOPBACK).try_credential(there, CREDENTIAL, "demo")

    assert (tested.is_ok, tested.status, tested.words) == (True, 200, "")
    assert len(scripted.attempts()) == 1


def test_the_upstreams_words_come_without_the_secret(scripted: ScriptedUpstream) -> None:
    there = replace(upstream(), base_url=scripted.base_url)
    scripted.script(f"status=401,message=Incorrect+key+{CANARY}+given")

    tested = Prober(allowed=LOOPBACK).try_credential(there, CREDENTIAL, "demo")

    assert (tested.is_ok, tested.status) == (False, 401)
    assert "Incorrect key" in tested.words
    assert "canary" not in tested.words


@pytest.mark.parametrize("base_url", ["http://127.0.0.1:1/v1", "https://169.254.169.254/v1", "https://localhost/v1"])
def test_no_answer_is_told_without_a_librarys_words(base_url: str) -> None:
    tested = Prober(allowed=LOOPBACK).try_credential(replace(upstream(), base_url=base_url), CREDENTIAL, "demo")

    assert not tested.is_ok
    assert tested.status is None
    assert tested.words in ("no connection", "its address may not be called", "the connection broke")


def test_an_upstreams_models_are_listed(scripted: ScriptedUpstream) -> None:
    there = replace(upstream(), base_url=scripted.base_url)

    assert Prober(allowed=LOOPBACK).list_models(there, CREDENTIAL)


@pytest.mark.parametrize(
    ("body", "listed"),
    [
        (b'{"data": [{"id": "a"}, {"id": ""}, {"id": 3}, "b", {}]}', [Listed(name="a")]),
        (b'[{"id": "a", "context_length": 8192}]', [Listed(name="a", context_window=8192)]),
        (
            b'{"models": [{"id": "a", "max_model_len": 4096, "max_output_tokens": 512}]}',
            [Listed(name="a", context_window=4096, max_output_tokens=512)],
        ),
        (b'{"data": [{"id": "a", "context_window": -1, "max_output_tokens": true}]}', [Listed(name="a")]),
        (b'{"data": [{"id": "a\\n<b>"}]}', []),
    ],
)
def test_lists_are_read_in_every_shape(body: bytes, listed: list[Listed]) -> None:
    assert _listed(body) == listed


@pytest.mark.parametrize("body", [b"", b"<html>", b'{"error": "no"}', b'"a"'])
def test_what_is_no_list_is_said_so(body: bytes) -> None:
    with pytest.raises(Unanswered):
        _listed(body)


def test_a_redirect_is_not_followed(scripted: ScriptedUpstream) -> None:
    there = replace(upstream(), base_url=scripted.base_url)
    with listener() as (server, port):
        scripted.script(f"redirect=http://127.0.0.1:{port}/v1/chat/completions")

        tested = Prober(allowed=LOOPBACK).try_credential(there, CREDENTIAL, "demo")

        assert (tested.is_ok, tested.status) == (False, 302)
        assert not knocked(server)


def test_the_environments_proxy_is_not_used(scripted: ScriptedUpstream, monkeypatch: pytest.MonkeyPatch) -> None:
    there = replace(upstream(), base_url=scripted.base_url)
    with listener() as (server, port):
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{port}")

        assert Prober(allowed=LOOPBACK).try_credential(there, CREDENTIAL, "demo").is_ok
        assert not knocked(server)


class Flipping(AbstractResolver):
    """Answers with a public address first and with ours from then on; nobody dials either."""

    def __init__(self) -> None:
        self.asked = 0

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        self.asked += 1
        address = "127.0.0.1" if self.asked > 1 else "9.9.9.9"
        return [
            ResolveResult(hostname=host, host=address, port=port, family=socket.AF_INET, proto=0, flags=0),
        ]

    async def close(self) -> None: ...


async def test_a_resolver_that_flips_after_the_first_answer_leads_nowhere() -> None:
    flipping = Flipping()
    guarded = GuardedResolver([])
    guarded._inner = flipping  # type: ignore[assignment]

    assert [found["host"] for found in await guarded.resolve("rebinding.example", 443)] == ["9.9.9.9"]
    for _ in range(3):
        with pytest.raises(OSError, match="no address that may be called"):
            await guarded.resolve("rebinding.example", 443)


async def test_each_connection_is_checked_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """The name resolves to our own listener, which the operator did not allow: nobody knocks."""

    async def to_loopback(
        self: object, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        return [ResolveResult(hostname=host, host="127.0.0.1", port=port, family=socket.AF_INET, proto=0, flags=0)]

    monkeypatch.setattr(aiohttp.ThreadedResolver, "resolve", to_loopback)
    client = UpstreamClient(allowed=[])
    with listener() as (server, port):
        for _ in range(2):
            with pytest.raises(UpstreamFault):
                await client.post(
                    f"https://public-name.example:{port}/v1/chat/completions",
                    {},
                    b"{}",
                    clocks=Clocks(connect_s=1),
                    until=asyncio.get_running_loop().time() + 2,
                )
        await client.aclose()
        assert not await asyncio.to_thread(knocked, server)
