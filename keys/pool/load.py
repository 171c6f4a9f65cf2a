"""How busy a credential is: claims that are open, sends and tokens of the last minute."""

from collections import deque
from dataclasses import dataclass, field

from keys.entries import CredentialEntry

WINDOW_S = 60.0
BUCKET_S = 2.0


@dataclass(frozen=True, slots=True)
class Crew:
    """The workers that share the credentials, and which of them this one is."""

    size: int = 1
    index: int = 0

    def share(self, limit: int, credential_id: int) -> int:
        """Return this worker's part of a limit; the remainders go round, credential by credential.

        At least one: where the limit is below the number of workers, it may be exceeded until they hear of each other.
        """
        whole, rest = divmod(limit, self.size)
        return max(1, whole + ((credential_id + self.index) % self.size < rest))


ALONE = Crew()


@dataclass(slots=True)
class Bucket:
    """Sends and tokens of two seconds."""

    starts_at: float
    sends: int = 0
    tokens: int = 0


@dataclass(slots=True)
class Load:
    """The load of one credential: this worker's own, and what the other workers last told."""

    in_flight: int = 0
    sends: int = 0
    tokens: int = 0
    others_in_flight: int = 0
    others_sends: int = 0
    others_tokens: int = 0
    #: Until when somebody who counts for all workers said no, and to how many tokens (0: to any request).
    full_until: float = 0.0
    full_tokens: int = 0
    _buckets: deque[Bucket] = field(default_factory=deque, repr=False)

    def claim(self, tokens: int, *, now: float) -> None:
        """Count an attempt that is about to be sent."""
        self.expire(now)
        self.in_flight += 1
        self._count(now, sends=1, tokens=tokens)

    def release(self, tokens: int, *, now: float) -> None:
        """Count an attempt as over; `tokens` is what it used beyond the claim's estimate, maybe negative."""
        self.expire(now)
        self.in_flight -= 1
        self._count(now, sends=0, tokens=tokens)

    def give_back(self, tokens: int, *, now: float) -> None:
        """Undo a claim whose attempt was never sent."""
        self.expire(now)
        self.in_flight -= 1
        self._count(now, sends=-1, tokens=-tokens)

    def fill(self, until: float, tokens: int) -> None:
        """Take in that a request of so many tokens doesn't fit before then, whatever is counted here."""
        self.full_until, self.full_tokens = until, tokens

    def is_full_elsewhere(self, tokens: int, *, now: float) -> bool:
        return now < self.full_until and tokens >= self.full_tokens

    def hear(self, *, in_flight: int, sends: int, tokens: int) -> None:
        """Take what the other workers told about themselves."""
        self.others_in_flight, self.others_sends, self.others_tokens = in_flight, sends, tokens

    def expire(self, now: float) -> None:
        """Forget what is older than the window."""
        while self._buckets and self._buckets[0].starts_at <= now - WINDOW_S:
            old = self._buckets.popleft()
            self.sends -= old.sends
            self.tokens -= old.tokens

    def frees_at(self, now: float) -> float:
        """Return when the oldest part of the window ends, or when there is room again elsewhere."""
        if now < self.full_until:
            return self.full_until
        return self._buckets[0].starts_at + WINDOW_S if self._buckets else now

    @property
    def is_idle(self) -> bool:
        return not self._buckets and not self.in_flight

    def has_room(
        self, credential: CredentialEntry, tokens: int, crew: Crew = ALONE, *, is_counted_elsewhere: bool = False
    ) -> bool:
        """Tell whether one more attempt of about `tokens` fits into the credential's own limits.

        Each worker takes its share of a limit, so that no word from the others has to be waited for. Tokens are
        estimates anyway: there the others' last word is subtracted. Where somebody counts the requests of all
        workers, each may use them up to the last.
        """
        if not _fits(credential.concurrency, self.in_flight, self.others_in_flight, crew, credential.id):
            return False
        sharing = ALONE if is_counted_elsewhere else crew
        if not _fits(credential.rpm, self.sends, self.others_sends, sharing, credential.id):
            return False
        used = self.tokens + self.others_tokens
        # A request larger than the whole allowance goes when nothing else runs, rather than never.
        return credential.tpm is None or used + tokens <= credential.tpm or used <= 0

    def _count(self, now: float, *, sends: int, tokens: int) -> None:
        if not self._buckets or now - self._buckets[-1].starts_at >= BUCKET_S:
            self._buckets.append(Bucket(now))
        bucket = self._buckets[-1]
        bucket.sends += sends
        bucket.tokens += tokens
        self.sends += sends
        self.tokens += tokens


def _fits(limit: int | None, own: int, others: int, crew: Crew, credential_id: int) -> bool:
    return limit is None or (own + others < limit and own < crew.share(limit, credential_id))
