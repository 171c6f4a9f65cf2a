"""When each client token was last used, written about once a minute."""

import asyncio

from keys.gathered import Gathered

EVERY_S = 60.0


class LastUsed(Gathered[int, None]):
    """Gathers the tokens that one worker saw."""

    what = "when tokens were last used"
    statement = b"UPDATE keys_clienttoken SET last_used_at = now() WHERE id = ANY(%s)"

    def __init__(self, dsn: str, *, every_s: float = EVERY_S) -> None:
        super().__init__(dsn, every_s=every_s)

    def note(self, token_id: int) -> None:
        self._seen[token_id] = None

    async def _write_now_and_then(self) -> None:
        while True:
            await asyncio.sleep(self._every_s)
            await self._write()

    def _place(self, seen: dict[int, None]) -> list[int]:
        return sorted(seen)
