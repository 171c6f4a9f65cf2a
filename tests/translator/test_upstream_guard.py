"""No connection to a refused address, whatever the name, the resolver, the upstream or the environment say.

Doors are listening sockets that count who comes in: what counts is that nobody did.
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from traceback import format_exception
from typing import Any

import pytest
from aiohttp.abc import AbstractResolver, ResolveResult

from translator.upstream import Answer, Clocks, UpstreamClient, UpstreamFault, UpstreamRefused

#: None of them is what a test is about.
CLOCKS = Clocks(connect_s=30, first_byte_s=30, gap_s=30, total_s=30)
TOTAL_S = 60
SECRET = "Bearer sk-nobody-may-see-this"
ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok"

#: Ways to write, or to lead to, this machine or a network behind it.
PRIVATE_HOSTS = [
    "127.0.0.1",
    "127.0.0.1.",
    "127.0.0.2",
    "127.255.255.254",
    "127.1",
    "127.0.1",
    "0177.0.0.1",
    "0177.1",
    "00000177.0.0.1",
    "0x7f.0.0.1",
    "0x7f.1",
    "0x7f000001",
    "0X7F000001",
    "2130706433",
    "017700000001",
    "127.0.0.0x1",
    "0",
    "0.0.0.0",  # noqa: S104
    "0x0",
    "10.0.0.1",
    "172.16.0.1",
    "192.168.0.1",
    "169.254.169.254",
    "100.64.0.1",
    "198.18.0.1",
    "224.0.0.1",
    "255.255.255.255",
    "[::1]",
    "[::]",
    "[0:0:0:0:0:0:0:1]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[0:0:0:0:0:ffff:7f00:1]",
    "[::127.0.0.1]",
    "[64:ff9b::7f00:1]",
    "[64:ff9b:1::7f00:1]",
    "[2002:7f00:1::]",
    "[2001:0:0:0:0:0:80ff:fffe]",
    "[fe80::1]",
    "[fe80::1%25lo]",
    "[fc00::1]",
    "[fd00:ec2::254]",
    "[ff02::1]",
    "localhost",
    "LOCALHOST",
    "localhost.",
    "x.localhost",
    "ip6-localhost",
    "localhost.localdomain",
    "metadata.google.internal",
    "１２７.０.０.１",  # noqa: RUF001
    "127。0。0。1",
    "①②⑦.0.0.1",
    "ⓛⓞⓒⓐⓛⓗⓞⓢⓣ",
    "user@127.0.0.1",
    "api.example.com@127.0.0.1",
    "api.example.com\\@127.0.0.1",
    "127.0.0.1#.example.com",
    "127.0.0.1?.example.com",
    "%31%32%37.0.0.1",
]


@dataclass
class Door:
    """A listening socket, and what came in by it."""

    port: int = 0
    answer: bytes = ANSWER
    entries: int = 0
    heard: list[bytes] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.entries += 1
        self.heard.append(await reader.read(4096))
        writer.write(self.answer)
        writer.close()


@asynccontextmanager
async def door(*hosts: str, port: int = 0, answer: bytes = ANSWER) -> AsyncIterator[Door]:
    one = Door(answer=answer)
    server = await asyncio.start_server(one.serve, list(hosts), port)
    one.port = server.sockets[0].getsockname()[1]
    try:
        yield one
    finally:
        server.close()


class Names(AbstractResolver):
    """Answers each lookup with the next list of addresses; the last one stays."""

    def __init__(self, *answers: list[str]) -> None:
        self.answers = list(answers)
        self.asked = 0

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        self.asked += 1
        addresses = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                proto=0,
                flags=socket.AI_NUMERICHOST,
            )
            for address in addresses
        ]

    async def close(self) -> None:
        pass


MakeClient = Callable[..., UpstreamClient]


@pytest.fixture
async def make_client() -> AsyncIterator[MakeClient]:
    made: list[UpstreamClient] = []

    def make(**options: Any) -> UpstreamClient:
        made.append(UpstreamClient(**options))
        return made[-1]

    yield make
    for client in made:
        await client.aclose()


async def post(client: UpstreamClient, url: str) -> Answer:
    until = asyncio.get_running_loop().time() + TOTAL_S
    return await client.post(url, {"authorization": "Bearer sk-1"}, b"{}", clocks=CLOCKS, until=until)


async def refused(client: UpstreamClient, url: str) -> None:
    with pytest.raises(UpstreamRefused):
        await post(client, url)


async def test_no_way_to_write_a_private_host_opens_a_connection(make_client: MakeClient) -> None:
    client = make_client(allowed=())
    assert len(PRIVATE_HOSTS) >= 40
    async with door("0.0.0.0", "::") as everywhere:  # noqa: S104
        for host in PRIVATE_HOSTS:
            for scheme in ("http", "https"):
                await refused(client, f"{scheme}://{host}:{everywhere.port}/v1/chat/completions")

        assert everywhere.entries == 0


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "127.0.0.2", "0.0.0.0", "::1", "::", "::ffff:127.0.0.1", "::127.0.0.1", "64:ff9b::7f00:1"],  # noqa: S104
)
async def test_no_name_that_leads_home_opens_a_connection(make_client: MakeClient, address: str) -> None:
    client = make_client(allowed=(), names=Names([address]))
    async with door("0.0.0.0", "::") as everywhere:  # noqa: S104
        await refused(client, f"https://api.example.com:{everywhere.port}/v1")

        assert everywhere.entries == 0


async def test_a_resolver_that_flips_after_its_first_answer_leads_nowhere(make_client: MakeClient) -> None:
    names = Names(["127.0.0.1"], ["127.0.0.2"])
    client = make_client(allowed=["127.0.0.1"], names=names)
    async with door("127.0.0.1") as good, door("127.0.0.2", port=good.port) as bad:
        with pytest.raises(UpstreamFault):  # it is no TLS server, but it was called
            await post(client, f"https://flips.example.com:{good.port}/v1")
        assert (good.entries, names.asked) == (1, 1)

        await refused(client, f"https://flips.example.com:{good.port}/v1")

        assert (good.entries, bad.entries, names.asked) == (1, 0, 2)


async def test_of_several_addresses_only_those_that_may_be_called_are(make_client: MakeClient) -> None:
    client = make_client(allowed=["127.0.0.1"], names=Names(["127.0.0.2", "127.0.0.1", "::1"]))
    async with door("127.0.0.1") as good, door("127.0.0.2", port=good.port) as bad:
        with pytest.raises(UpstreamFault):
            await post(client, f"https://many.example.com:{good.port}/v1")

        assert (good.entries, bad.entries) == (1, 0)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_an_answer_and_not_followed(make_client: MakeClient, status: int) -> None:
    client = make_client(allowed=["127.0.0.1"])
    async with door("127.0.0.2") as elsewhere:
        answer = (
            f"HTTP/1.1 {status} Elsewhere\r\nlocation: http://127.0.0.2:{elsewhere.port}/\r\n"
            "content-length: 0\r\nconnection: close\r\n\r\n"
        )
        async with door("127.0.0.1", answer=answer.encode()) as upstream:
            got = await post(client, f"http://127.0.0.1:{upstream.port}/v1")
            await got.aclose()

        assert got.status == status
        assert (upstream.entries, elsewhere.entries) == (1, 0)


async def test_proxies_and_netrc_of_the_environment_mean_nothing(
    make_client: MakeClient, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async with door("127.0.0.2") as proxy, door("127.0.0.1") as upstream:
        netrc = tmp_path / ".netrc"
        netrc.write_text("machine 127.0.0.1 login mallory password from-netrc\n", encoding="utf-8")
        netrc.chmod(0o600)
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.setenv("NETRC", str(netrc))
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(name, f"http://127.0.0.2:{proxy.port}")
            monkeypatch.setenv(name.lower(), f"http://127.0.0.2:{proxy.port}")
        client = make_client(allowed=["127.0.0.1"], names=Names(["127.0.0.1"]))
        answer = await post(client, f"http://127.0.0.1:{upstream.port}/v1")
        await answer.aclose()
        with pytest.raises(UpstreamFault):
            await post(client, f"https://api.example.com:{upstream.port}/v1")

        assert (upstream.entries, proxy.entries) == (2, 0)
        assert upstream.heard[0].lower().count(b"authorization:") == 1
        assert b"Bearer sk-1" in upstream.heard[0]


@pytest.mark.parametrize("end", ["\n", "\r\nx-more: yes", "\x00", "\xa0", "\xe9", "\u2028", "\udc80", "\x1b[31m"])
async def test_a_header_that_cannot_be_sent_is_refused_without_its_value(make_client: MakeClient, end: str) -> None:
    client = make_client(allowed=["127.0.0.1"])
    async with door("127.0.0.1") as upstream:
        url = f"http://127.0.0.1:{upstream.port}/v1"
        until = asyncio.get_running_loop().time() + TOTAL_S
        with pytest.raises(UpstreamRefused) as refused:
            await client.post(url, {"authorization": SECRET + end}, b"{}", clocks=CLOCKS, until=until)
        with pytest.raises(UpstreamRefused):
            await client.get(url, {"authorization": SECRET + end}, clocks=CLOCKS, until=until)

        assert upstream.entries == 0
    assert SECRET not in "".join(format_exception(refused.value))
    assert SECRET not in repr(refused.value.__cause__) + repr(refused.value.__context__)
