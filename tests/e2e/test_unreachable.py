"""An upstream to which no connection comes about: refused, without an address, or with another's certificate."""

import datetime
import itertools
import json
import re
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.e2e.client import ask
from tests.e2e.ledger import assert_ledger_adds_up
from tests.gateway import MakeGateway, RunningGateway, route_words, upstream_words
from tests.keys.processes import until
from tests.upstream import ScriptedUpstream

ANSWER = {
    "id": "1",
    "object": "chat.completion",
    "model": "m",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hello"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
}
FAULTS = ["refused", "nameless", "misnamed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A TLS server: where it listens, whom it says it is, and what it was sent."""

    port: int
    certificate: Path
    heard: list[bytes]


def write_certificate(folder: Path, name: str) -> Path:
    """Write a certificate for `name`, signed by itself, with its key, and return the file."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    file = folder / "certificate.pem"
    file.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        + certificate.public_bytes(serialization.Encoding.PEM)
    )
    return file


@contextmanager
def answering_over_tls(certificate: Path) -> Iterator[Server]:
    """Answer each call over TLS with the same words."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    body = json.dumps(ANSWER).encode()
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"
    heard: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    plain, _ = listener.accept()
                except OSError:
                    return
                with suppress(OSError), plain, context.wrap_socket(plain, server_side=True) as connection:
                    heard.append(read_request(connection))
                    connection.sendall(head % len(body) + body)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield Server(port=listener.getsockname()[1], certificate=certificate, heard=heard)
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(timeout=60)


def read_request(connection: ssl.SSLSocket) -> bytes:
    """Read all of it: what is left unread when the connection is closed may take the answer along."""
    said = b""
    while piece := connection.recv(65536):
        said += piece
        head, end, body = said.partition(b"\r\n\r\n")
        lengths = re.findall(rb"(?i)^content-length: *(\d+)", head, re.MULTILINE)
        if end and len(body) >= int(*lengths):
            break
    return said


@pytest.fixture(scope="module")
def tls_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server whose certificate names `localhost`, and not the address that it listens on."""
    with answering_over_tls(write_certificate(tmp_path_factory.mktemp("tls"), "localhost")) as server:
        yield server


@pytest.fixture(scope="module")
def cut_off(make_gateway: MakeGateway, tls_server: Server) -> Iterator[RunningGateway]:
    """A gateway whose upstreams never rest: few calls are made."""
    with before_faults(make_gateway, tls_server) as gateway:
        yield gateway


@pytest.fixture(scope="module")
def resting(make_gateway: MakeGateway, tls_server: Server) -> Iterator[RunningGateway]:
    """Another one, whose upstreams may come to rest."""
    with before_faults(make_gateway, tls_server) as gateway:
        yield gateway


@contextmanager
def before_faults(make_gateway: MakeGateway, tls_server: Server) -> Iterator[RunningGateway]:
    """Run a gateway with an upstream and a route for each fault, and one whose certificate is right."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))  # and never listens
        urls = {
            "refused": f"http://127.0.0.1:{bound.getsockname()[1]}/v1",
            "nameless": "https://nowhere.invalid/v1",
            "misnamed": f"https://127.0.0.1:{tls_server.port}/v1",
            "rightly-named": f"https://localhost:{tls_server.port}/v1",
        }
        commands = [
            words
            for name, url in urls.items()
            for words in (upstream_words(name, url, f"sk-{name}-1", f"sk-{name}-2"), route_words(name, name, "m"))
        ]
        yield make_gateway(
            commands=commands,
            BRIDGE_ALLOW_PRIVATE_UPSTREAMS="127.0.0.1,localhost,nowhere.invalid",
            SSL_CERT_FILE=str(tls_server.certificate),
        )


def state_of(gateway: RunningGateway, name: str) -> dict[str, Any]:
    """Return how an upstream stands; nothing is known of one that never failed."""
    query = "SELECT s.* FROM keys_upstreamstate s JOIN keys_upstream u ON u.id = s.upstream_id WHERE u.name = %s"
    return next(iter(gateway.sql(query, name)), {})


@pytest.mark.parametrize("name", FAULTS)
@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
def test_no_connection_is_an_error_of_the_upstream(
    cut_off: RunningGateway, upstream: ScriptedUpstream, tls_server: Server, name: str, stream: bool
) -> None:
    seen = ask(cut_off, name, stream=stream)

    assert (seen.status, seen.error) == (500, {"type": "api_error", "message": "cannot reach upstream"}), seen
    records = assert_ledger_adds_up(cut_off, upstream, unreachable=12, ended_well={seen.request_id: False})
    mine = [record for record in records if record["request_id"] == seen.request_id]
    assert 1 <= len(mine) <= 2
    assert len({record["credential_id"] for record in mine}) == len(mine)
    for record in mine:
        told = (
            record["state"],
            record["source"],
            record["http_status"],
            record["input_tokens"],
            record["output_tokens"],
        )
        assert told == ("upstream_error", "unknown", None, 0, 0), record
    assert tls_server.heard == []


@pytest.mark.parametrize("name", FAULTS)
def test_an_upstream_that_cannot_be_reached_rests_and_its_credentials_do_not(
    resting: RunningGateway, tls_server: Server, name: str
) -> None:
    lengths = itertools.count(10, 10)

    def rests() -> bool:
        ask(resting, name, "Hello " * next(lengths), stream=False)  # the same prompt would count once
        return state_of(resting, name).get("state") == "cooling"

    until(rests, within_s=60)

    state = state_of(resting, name)
    assert (state["cause"], state["failures"]) == ("network", 5), state
    assert resting.sql("SELECT * FROM keys_credentialstate WHERE state <> 'ready' OR failures > 0") == []
    assert tls_server.heard == []


def test_a_certificate_with_the_right_name_is_taken(resting: RunningGateway, tls_server: Server) -> None:
    seen = ask(resting, "rightly-named", stream=False)

    assert seen.status == 200, seen
    [heard] = tls_server.heard
    assert b"Bearer sk-rightly-named-" in heard
    tls_server.heard.clear()
