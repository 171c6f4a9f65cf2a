"""A gateway that is started with another ring of encryption keys than the one its secrets are sealed under."""

import base64
import json
import secrets

import httpx
import pytest

from tests.e2e.client import ask
from tests.gateway import MakeGateway, RunningGateway, route_words, upstream_words
from tests.keys.processes import calls_by_key, until
from tests.upstream import ScriptedUpstream

OLD_KEYS = ["sk-old-1", "sk-old-2"]
NEW_KEY = "sk-new-1"
STANDINGS = (
    "import json; from keys.models import Credential; from keys.ring import key_ring; from keys.standing import standing;"
    "print(json.dumps([standing(one, one.states.all(), key_ring()).state for one in Credential.objects.order_by('pk')]))"
)


def undecryptable(gateway: RunningGateway) -> int:
    """Give what a gateway that is ready says."""
    answer = httpx.get(f"{gateway.base_url}/readyz", trust_env=False, timeout=60)
    assert answer.status_code == 200
    return int(answer.json()["undecryptable_credentials"])


def sealed(gateway: RunningGateway) -> list[str]:
    rows = gateway.sql("SELECT sealed_secret FROM keys_credential ORDER BY id LIMIT %s", len(OLD_KEYS))
    return [row["sealed_secret"] for row in rows]


def fresh_key() -> str:
    return base64.b64encode(secrets.token_bytes(32)).decode()


@pytest.mark.parametrize("key_id", ["k1", "k9"], ids=["another key under the same id", "another id"])
def test_secrets_under_another_ring_are_neither_used_nor_lost(
    gateway: MakeGateway, upstream: ScriptedUpstream, key_id: str
) -> None:
    old_ring, new_ring = f"k1:{fresh_key()}", f"{key_id}:{fresh_key()}"
    moved = gateway(
        commands=[upstream_words("old", upstream.base_url, *OLD_KEYS), route_words("m", "old", "mock-n1-d0")],
        BRIDGE_ENCRYPTION_KEYS=old_ring,
    )
    assert ask(moved, "m").ended_well
    before = sealed(moved)
    upstream.reset()

    moved.stop()
    moved.environment["BRIDGE_ENCRYPTION_KEYS"] = new_ring
    moved.start()

    assert undecryptable(moved) == 2
    assert "no encryption key of the ring opens 2 of the credentials" in moved.log()
    refused = ask(moved, "m")
    assert (refused.status, refused.headers["x-should-retry"]) == (503, "false"), refused
    assert upstream.attempts() == []
    assert json.loads(moved.command("shell", "--verbosity", "0", "-c", STANDINGS)) == ["undecryptable"] * 2

    moved.add_upstream("new", upstream.base_url, NEW_KEY)
    moved.add_route("n", "new", "mock-n1-d0")
    until(lambda: ask(moved, "n").ended_well, within_s=60)
    assert set(calls_by_key(upstream, [*OLD_KEYS, NEW_KEY])) == {NEW_KEY}
    if key_id != "k1":
        with pytest.raises(AssertionError, match="no key of the ring opens"):
            moved.command("rotate_encryption_key")
    assert sealed(moved) == before

    moved.stop()
    moved.environment["BRIDGE_ENCRYPTION_KEYS"] = old_ring
    moved.start()

    assert undecryptable(moved) == 1
    assert ask(moved, "m").ended_well
    assert ask(moved, "n").status >= 500
