"""What a stranger can send: nothing of it fills memory or disk, is read in two ways, or reaches an upstream."""

import os
import socket
import time
from contextlib import suppress
from pathlib import Path

import pytest

from bridgeproject.bodies import BODY_S
from bridgeproject.connection import HEAD_S
from tests.gateway import RunningGateway
from tests.upstream import ScriptedUpstream

HOST = b"host: 127.0.0.1\r\n"
GET = b"GET /livez HTTP/1.1\r\n"
POST = b"POST /v1/messages HTTP/1.1\r\n"
SECOND = GET + HOST + b"x-second: yes\r\n\r\n"
CHUNKED = b"transfer-encoding: chunked\r\n"
#: Sooner than the server gives up a body that doesn't come.
SOON_S = BODY_S / 2

#: Requests that two servers could read differently, or that are none.
AMBIGUOUS = {
    "two lengths": POST + HOST + b"content-length: 5\r\ncontent-length: 6\r\n\r\nhello",
    "the same length twice": POST + HOST + b"content-length: 5\r\ncontent-length: 5\r\n\r\nhello",
    "a list of lengths": POST + HOST + b"content-length: 5, 5\r\n\r\nhello",
    "length and chunks": POST + HOST + b"content-length: 5\r\n" + CHUNKED + b"\r\n0\r\n\r\n",
    "chunks and length": POST + HOST + CHUNKED + b"content-length: 5\r\n\r\n0\r\n\r\n",
    "a negative length": POST + HOST + b"content-length: -1\r\n\r\n",
    "a signed length": POST + HOST + b"content-length: +5\r\n\r\nhello",
    "a hex length": POST + HOST + b"content-length: 0x5\r\n\r\nhello",
    "no length": POST + HOST + b"content-length:\r\n\r\n",
    "a huge length": POST + HOST + b"content-length: " + b"9" * 30 + b"\r\n\r\n",
    "chunks not last": POST + HOST + b"transfer-encoding: chunked, gzip\r\n\r\n0\r\n\r\n",
    "unknown coding": POST + HOST + b"transfer-encoding: xchunked\r\n\r\n0\r\n\r\n",
    "chunks twice": POST + HOST + CHUNKED * 2 + b"\r\n0\r\n\r\n",
    "chunks in a list twice": POST + HOST + b"transfer-encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
    "a tab before chunks": POST + HOST + b"transfer-encoding:\x0bchunked\r\n\r\n0\r\n\r\n",
    "a space before the colon": POST + HOST + b"transfer-encoding : chunked\r\n\r\n0\r\n\r\n",
    "a folded header": POST + HOST + b"x-a: b\r\n content-length: 5\r\n\r\n",
    "a folded first header": POST + b" x-a: b\r\n" + HOST + b"\r\n",
    "bare LF ends": POST.replace(b"\r\n", b"\n") + b"host: x\ncontent-length: 0\n\n",
    "bare LF in a header": POST + HOST + b"x-a: b\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    "bare CR in a header": POST + HOST + b"x-a: b\rtransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    "NUL in a header": GET + HOST + b"x-a: b\x00c\r\n\r\n",
    "NUL in a name": GET + HOST + b"x\x00a: b\r\n\r\n",
    "a header without a colon": GET + HOST + b"x-a\r\n\r\n",
    "a header without a name": GET + HOST + b": b\r\n\r\n",
    "two hosts": GET + HOST + b"host: evil.example\r\n\r\n",
    "no host": GET + b"\r\n",
    "two tokens in one header": POST + HOST + b"authorization: Bearer a\r\nauthorization: Bearer b\r\n\r\n",
    "two api keys": POST + HOST + b"x-api-key: a\r\nx-api-key: b\r\n\r\n",
    "a bad version": b"GET /livez HTTP/9.9\r\n" + HOST + b"\r\n",
    "no version": b"GET /livez\r\n\r\n",
    "a space in the path": b"GET /li vez HTTP/1.1\r\n" + HOST + b"\r\n",
    "a bad method": b"G@T /livez HTTP/1.1\r\n" + HOST + b"\r\n",
    "a tab in the line": b"GET\t/livez\tHTTP/1.1\r\n" + HOST + b"\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 200,
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
}
#: Chunks that are none; the head before them is sound.
BROKEN_CHUNKS = {
    "a signed size": b"+5\r\nhello\r\n0\r\n\r\n",
    "a hex sign": b"0x5\r\nhello\r\n0\r\n\r\n",
    "no end of line": b"5\r\nhelloX0\r\n\r\n",
    "a huge size": b"f" * 17 + b"\r\nhello\r\n0\r\n\r\n",
    "bare LF": b"5\nhello\n0\n\n",
    "a size of nothing": b"\r\nhello\r\n0\r\n\r\n",
}


@pytest.fixture(scope="module")
def door(shared: RunningGateway) -> tuple[str, int]:
    host, _, port = shared.base_url.removeprefix("http://").partition(":")
    return host, int(port)


def told(door: tuple[str, int], sent: bytes, *, within_s: float = HEAD_S - 1) -> bytes:
    """Send bytes, and give everything that comes until the server closes the connection."""
    heard = b""
    with socket.create_connection(door, timeout=within_s) as client:
        with suppress(ConnectionError):
            client.sendall(sent)
        with suppress(ConnectionError):
            while piece := client.recv(65536):
                heard += piece
    return heard


@pytest.mark.parametrize("case", AMBIGUOUS)
def test_what_can_be_read_in_two_ways_is_refused_and_nothing_after_it_is_read(door: tuple[str, int], case: str) -> None:
    heard = told(door, AMBIGUOUS[case] + SECOND)

    assert heard.startswith(b"HTTP/1.1 400 ") or heard == b"", heard
    assert heard.count(b"HTTP/1.1 ") <= 1, heard


@pytest.mark.parametrize("case", BROKEN_CHUNKS)
def test_broken_chunks_end_the_connection(
    door: tuple[str, int], shared: RunningGateway, upstream: ScriptedUpstream, case: str
) -> None:
    token = b"x-api-key: " + shared.token.encode() + b"\r\n"

    heard = told(door, POST + HOST + token + CHUNKED + b"\r\n" + BROKEN_CHUNKS[case] + SECOND)

    assert heard.startswith(b"HTTP/1.1 400 "), heard
    assert heard.count(b"HTTP/1.1 ") == 1, heard
    assert upstream.attempts() == []


def held_on_disk(gateway: RunningGateway) -> int:
    """Add up the files that the workers hold open and that have no name any more."""
    size = 0
    for pid in gateway.worker_pids():
        for one in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                size += os.stat(one).st_size if os.readlink(one).endswith("(deleted)") else 0
    return size


@pytest.mark.parametrize(
    "path", [b"/admin/login/", b"/login/", b"/nowhere/", b"/usage/api/report", b"/livez", b"/v1/x"]
)
def test_a_stranger_fills_neither_disk_nor_memory(door: tuple[str, int], shared: RunningGateway, path: bytes) -> None:
    piece = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
    began = time.monotonic()
    with socket.create_connection(door, timeout=SOON_S) as client:
        client.sendall(b"POST " + path + b" HTTP/1.1\r\n" + HOST + CHUNKED + b"\r\n")
        with suppress(ConnectionError):
            for _ in range(160):
                client.sendall(piece)
        on_disk = held_on_disk(shared)
        heard = client.recv(65536)
        with suppress(ConnectionError):
            while client.recv(65536):
                pass

    assert heard.split(b" ")[1] in (b"401", b"413"), heard
    assert on_disk < 2**20
    assert time.monotonic() - began < SOON_S


def test_a_length_that_promises_too_much_or_too_little_is_no_request(
    door: tuple[str, int], shared: RunningGateway, upstream: ScriptedUpstream
) -> None:
    head = POST + HOST + b"x-api-key: " + shared.token.encode() + b"\r\ncontent-length: "
    body = b'{"model":"mock-n1-d0","max_tokens":9,"messages":[{"role":"user","content":"x"}]}'

    too_little = told(door, head + b"%d\r\n\r\n" % (len(body) - 1) + body)
    with socket.create_connection(door, timeout=SOON_S) as client:
        client.sendall(head + b"%d\r\n\r\n" % (len(body) + 1) + body)
        client.shutdown(socket.SHUT_WR)
        too_much = client.recv(65536)

    assert too_little.startswith(b"HTTP/1.1 400 "), too_little
    assert b" 200 " not in too_much
    assert upstream.attempts() == []


def test_headers_that_are_for_proxies_change_nothing(door: tuple[str, int]) -> None:
    lies = [
        b"daphne-root-path: /evil",
        b"x-script-name: /evil",
        b"script-name: /evil",
        b"script_name: /evil",
        b"x-forwarded-prefix: /evil",
        b"x-forwarded-host: evil.example",
        b"x-forwarded-proto: https",
        b"x-original-url: /admin/evil",
        b"x-rewrite-url: /admin/evil",
        b"forwarded: host=evil.example",
    ]

    plain = told(door, b"GET / HTTP/1.1\r\nconnection: close\r\n" + HOST + b"\r\n")
    lied_to = told(door, b"GET / HTTP/1.1\r\nconnection: close\r\n" + HOST + b"\r\n".join(lies) + b"\r\n\r\n")

    assert b"location: /login/?next=/" in plain.lower()
    assert location_of(lied_to) == location_of(plain)
    assert b"evil" not in lied_to


def location_of(heard: bytes) -> bytes:
    return next(line for line in heard.lower().split(b"\r\n") if line.startswith(b"location:"))


def test_a_request_has_our_id_whatever_the_client_calls_it(door: tuple[str, int], shared: RunningGateway) -> None:
    ids = [b"mine", b"a\x1b[31m", b"a" * 5000, b"a%0d%0aset-cookie:%20x=y", b"\xff\xfe"]

    heard = [told(door, POST + HOST + b"x-request-id: " + one + b"\r\nrequest-id: " + one + b"\r\n\r\n") for one in ids]

    assert b"request-id: req_" in heard[0]
    for answer in heard:
        assert b"request-id: req_" in answer or answer.startswith(b"HTTP/1.1 400 ")
        assert b"set-cookie" not in answer.lower()
    assert "\x1b" not in shared.log()
