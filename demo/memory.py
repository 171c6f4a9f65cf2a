"""What the upstream remembers between calls: scripts that tests set, prompts seen lately, the last requests."""

import hashlib
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson

from demo.http1 import Request
from demo.sample import count_tokens
from demo.script import PREFIX, Script, ScriptError, parse_script

#: A prefix is cached in blocks of so many bytes of the prompt's JSON (128 tokens), as the providers do.
BLOCK = 512
MAX_BLOCKS = 50_000
#: Bytes of request bodies that are kept.
MAX_KEPT = 32 * 1024 * 1024


@dataclass(slots=True, kw_only=True)
class Setting:
    """A script or a recorded answer for a key, for a model, or for every call."""

    script: str = ""
    raw: dict[str, Any] | None = None
    #: Calls that it is still good for; None: until the reset.
    times: int | None = None


class Scripts:
    """The settings of `POST /script`, and which of them a call gets."""

    def __init__(self) -> None:
        self._settings: defaultdict[str, list[Setting]] = defaultdict(list)
        self._calls: Counter[str] = Counter()

    def set(self, order: dict[str, Any]) -> None:
        """Take an order: `{"key"|"model": NAME | "any": true, "script": TEXT | "raw": {...}, "times": N}`.

        A setting without `times` replaces all that was set for its target. Those with it queue up before it.

        Raises:
            ScriptError: The target or the script makes no sense.
        """
        target = self._target(order)
        setting = Setting(script=str(order.get("script", "")), raw=order.get("raw"), times=order.get("times"))
        if setting.raw is None:
            parse_script(setting.script)
        queue = self._settings[target]
        if setting.times is None:
            queue[:] = [setting]
        else:
            place = next((n for n, old in enumerate(queue) if old.times is None), len(queue))
            queue.insert(place, setting)

    def reset(self) -> None:
        self._settings.clear()
        self._calls.clear()

    def find(self, *, key: str, model: str) -> Setting | None:
        """Give what is set for the key, else for the model, else for all; else the model's own name; else None."""
        for target in (f"key {key}", f"model {model}", "any"):
            if queue := self._settings.get(target):
                return self._take(queue)
        return Setting(script=model) if model.startswith(PREFIX) else None

    def settle(self, text: str) -> Script:
        """Read a script; of one that flaps, say what this call gets.

        Raises:
            ScriptError: A word isn't known.
        """
        script = parse_script(text)
        if script.flap is None:
            return script
        failing, of = script.flap
        place = self._calls[text] % of
        self._calls[text] += 1
        fails = place < failing
        if script.fault is None and script.status == 200 and fails:
            return parse_script(f"{text},status=503")
        return script if fails else replace(script, fault=None, status=200, redirect=None, wait=0.0, drip=None)

    @staticmethod
    def _target(order: dict[str, Any]) -> str:
        if order.get("any"):
            return "any"
        for kind in ("key", "model"):
            if isinstance(order.get(kind), str):
                return f"{kind} {order[kind]}"
        msg = 'name a "key" or a "model", or set "any" to true'
        raise ScriptError(msg)

    @staticmethod
    def _take(queue: list[Setting]) -> Setting:
        setting = queue[0]
        if setting.times is not None:
            setting.times -= 1
            if setting.times <= 0:
                queue.pop(0)
        return setting


class Prefixes:
    """Prompts seen lately, by the digests of their prefixes, so that a repeated beginning counts as cached."""

    def __init__(self) -> None:
        self._seen: OrderedDict[bytes, None] = OrderedDict()

    def reset(self) -> None:
        self._seen.clear()

    def count(self, parts: Sequence[Any], *, owner: str) -> tuple[int, int]:
        """Give the tokens of a prompt and how many of them are cached; then remember the prompt."""
        prompt = b"".join(orjson.dumps(part) for part in parts if part is not None)
        known = True
        cached = 0
        for digest in self._digests(prompt, owner):
            known = known and digest in self._seen
            cached += BLOCK if known else 0
            self._seen[digest] = None
            self._seen.move_to_end(digest)
        while len(self._seen) > MAX_BLOCKS:
            self._seen.popitem(last=False)
        return count_tokens(len(prompt)), count_tokens(cached)

    @staticmethod
    def _digests(prompt: bytes, owner: str) -> Iterable[bytes]:
        running = hashlib.blake2b(owner.encode(), digest_size=16)
        for start in range(0, len(prompt) - BLOCK + 1, BLOCK):
            running.update(prompt[start : start + BLOCK])
            yield running.digest()


class Requests:
    """The last calls as they came, up to `MAX_KEPT` bytes of them."""

    def __init__(self) -> None:
        self._kept: deque[Request] = deque()
        self._size = 0

    def keep(self, request: Request) -> None:
        self._kept.append(request)
        self._size += len(request.body)
        while self._size > MAX_KEPT and len(self._kept) > 1:
            self._size -= len(self._kept.popleft().body)

    def reset(self) -> None:
        self._kept.clear()
        self._size = 0

    def report(self) -> list[dict[str, Any]]:
        return [{"method": r.method, "path": r.path, "headers": r.headers, "body": _read(r.body)} for r in self._kept]


def _read(body: bytes) -> Any:
    try:
        return orjson.loads(body)
    except ValueError:
        return body.decode("utf-8", "backslashreplace")
