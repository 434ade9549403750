"""Client quotas: whose quota counts for a request, how much of it is used, and how long a client must wait.

Kafka's arithmetic (KIP-13, KIP-55, KIP-124, KIP-546, KIP-599): a rate over a few windows for bytes and for
request time, a token bucket for changes of topics and partitions. No clock, no socket: the caller says when.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Generic, NamedTuple, TypeVar

from barnabas.core.metadata.quotas import CLIENT_ID, USER, ClientQuotasImage, EntityPart
from barnabas.server.quotas.rate import QuotaRate

INACTIVE_AFTER_MS: Final = 3_600_000
"""A usage that nobody added to for so long is forgotten."""
NANOS_PER_PERCENT: Final = 10_000_000
"""Of a second: request time is a percentage of one thread."""


class QuotaKey(Enum):
    """What is limited; the value is the key in the quota's configuration."""

    PRODUCE = "producer_byte_rate"
    FETCH = "consumer_byte_rate"
    REQUEST = "request_percentage"
    CONTROLLER_MUTATION = "controller_mutation_rate"


class _Default:
    """Stands for the quota of all users, or all clients, without their own."""


DEFAULT: Final = _Default()
_Name = str | _Default | None
"""None: the entity says nothing about this side."""


class Usage(NamedTuple):
    """Whose use is counted together: "" on a side that does not count. Also the tags of Kafka's quota metrics."""

    user: str
    client_id: str


@dataclass(frozen=True, slots=True)
class QuotaLimits:
    """All limits of one key, [(user, client id)]."""

    by_entity: dict[tuple[_Name, _Name], float] = field(default_factory=dict)

    @classmethod
    def of(cls, image: ClientQuotasImage, key: QuotaKey) -> QuotaLimits:
        """Give the limits that the image says; entities of other kinds (an IP) are left out."""
        limits: dict[tuple[_Name, _Name], float] = {}
        for entity, values in image.by_entity.items():
            if key.value in values and all(part.type in (USER, CLIENT_ID) for part in entity):
                limits[_side(entity, USER), _side(entity, CLIENT_ID)] = values[key.value]
        return cls(limits)

    def find(self, user: str, client_id: str) -> tuple[Usage, float | None]:
        """Give whose use counts and the limit, None when there is none. The most specific entity decides."""
        for entity, usage in (
            ((user, client_id), Usage(user, client_id)),
            ((user, DEFAULT), Usage(user, client_id)),
            ((user, None), Usage(user, "")),
            ((DEFAULT, client_id), Usage(user, client_id)),
            ((DEFAULT, DEFAULT), Usage(user, client_id)),
            ((DEFAULT, None), Usage(user, "")),
            ((None, client_id), Usage("", client_id)),
            ((None, DEFAULT), Usage("", client_id)),
        ):
            limit = self.by_entity.get(entity)
            if limit is not None:
                return usage, limit
        return Usage("", client_id), None

    def __bool__(self) -> bool:
        return bool(self.by_entity)


def _side(entity: tuple[EntityPart, ...], kind: str) -> _Name:
    for part in entity:
        if part.type == kind:
            return DEFAULT if part.name is None else part.name
    return None


class TokenBucket:
    """Tokens that come back at `rate` a second up to a store of `windows` windows' worth (KIP-599).

    It begins full. A taking may leave it in debt; what is asked is whether it is in debt already.
    """

    __slots__ = ("_last_ms", "_tokens", "_windows_seconds")

    def __init__(self, window_ms: int = 1_000, windows: int = 11) -> None:
        self._windows_seconds = windows * window_ms / 1_000
        self._tokens: float | None = None
        self._last_ms = 0

    def tokens(self, rate: float, now_ms: int) -> float:
        """Give how many there are now; negative is a debt."""
        store = rate * self._windows_seconds
        held = store if self._tokens is None else self._tokens
        self._tokens = min(store, held + rate * max(0, now_ms - self._last_ms) / 1_000)
        self._last_ms = now_ms
        return self._tokens

    def take(self, count: float, rate: float, now_ms: int) -> None:
        """Take tokens, into debt if need be."""
        self._tokens = self.tokens(rate, now_ms) - count

    def throttle_ms(self, rate: float, now_ms: int) -> int:
        """Give how long the debt lasts; 0 when there is none."""
        tokens = self.tokens(rate, now_ms)
        if tokens >= 0:
            return 0
        return round(-tokens / rate * 1_000) if rate > 0 else INACTIVE_AFTER_MS


C = TypeVar("C")


class _Counters(Generic[C]):
    """Usages in use; those long inactive go, looked for once a while."""

    def __init__(self, new: Callable[[], C]) -> None:
        self._new = new
        self._by_usage: dict[Usage, tuple[C, int]] = {}
        self._swept_ms = 0

    def get(self, usage: Usage, now_ms: int) -> C:
        if now_ms - self._swept_ms >= INACTIVE_AFTER_MS:
            self._swept_ms = now_ms
            live = {u: c for u, c in self._by_usage.items() if now_ms - c[1] < INACTIVE_AFTER_MS}
            self._by_usage = live
        found = self._by_usage.get(usage)
        counter = self._new() if found is None else found[0]
        self._by_usage[usage] = (counter, now_ms)
        return counter

    def __len__(self) -> int:
        return len(self._by_usage)


class RateQuota:
    """A quota on a rate: bytes produced, bytes fetched, or request time."""

    def __init__(self, key: QuotaKey, *, window_ms: int = 1_000, windows: int = 11) -> None:
        self.key = key
        self._limits = QuotaLimits()
        self._window_ms = window_ms
        self._windows = windows
        self._rates: _Counters[QuotaRate] = _Counters(lambda: QuotaRate(window_ms, windows))
        self.enabled = False
        """Whether anybody has a limit; until then nothing is counted."""

    def update(self, image: ClientQuotasImage) -> None:
        """Take over what the image says; what was used so far still counts."""
        self._limits = QuotaLimits.of(image, self.key)
        self.enabled = bool(self._limits)

    def record(self, user: str, client_id: str, value: float, now_ms: int) -> int:
        """Count `value`, and give how many ms the client must wait, 0 when it is within its limit."""
        if not self._limits:
            return 0
        usage, limit = self._limits.find(user, client_id)
        rate = self._rates.get(usage, now_ms)
        rate.record(value, now_ms)
        if limit is None:
            return 0
        wait_ms = rate.throttle_ms(limit, now_ms)
        # Request time alone is bounded: a client that computes little could else be kept away for minutes.
        return min(wait_ms, self._window_ms) if self.key is QuotaKey.REQUEST else wait_ms

    def take_back(self, user: str, client_id: str, value: float, now_ms: int) -> None:
        """Uncount a value: a throttled fetch is answered empty."""
        if self._limits:
            usage, _ = self._limits.find(user, client_id)
            self._rates.get(usage, now_ms).record(-value, now_ms)

    def most_at_once(self, user: str, client_id: str) -> float | None:
        """Give the largest value that can ever be within the limit, None without one: it bounds a fetch."""
        _, limit = self._limits.find(user, client_id)
        return None if limit is None else limit * (self._windows - 1) * self._window_ms / 1_000


class MutationQuota:
    """A quota on changes of topics and partitions, by token bucket (KIP-599)."""

    def __init__(self, *, window_ms: int = 1_000, windows: int = 11) -> None:
        self._limits = QuotaLimits()
        self._buckets: _Counters[TokenBucket] = _Counters(lambda: TokenBucket(window_ms, windows))

    def update(self, image: ClientQuotasImage) -> None:
        """Take over what the image says."""
        self._limits = QuotaLimits.of(image, QuotaKey.CONTROLLER_MUTATION)

    @property
    def enabled(self) -> bool:
        """Whether anybody has a limit."""
        return bool(self._limits)

    def record_strictly(self, user: str, client_id: str, count: float, now_ms: int) -> int:
        """Take tokens if there is no debt; else take none, and give the ms until THROTTLING_QUOTA_EXCEEDED ends."""
        usage, limit = self._limits.find(user, client_id)
        if limit is None:
            return 0
        bucket = self._buckets.get(usage, now_ms)
        wait_ms = bucket.throttle_ms(limit, now_ms)
        if wait_ms == 0:
            bucket.take(count, limit, now_ms)
        return wait_ms

    def record_permissively(self, user: str, client_id: str, count: float, now_ms: int) -> int:
        """Take tokens whatever there is, and give how many ms the client must wait: for clients before KIP-599."""
        usage, limit = self._limits.find(user, client_id)
        if limit is None:
            return 0
        bucket = self._buckets.get(usage, now_ms)
        bucket.take(count, limit, now_ms)
        return bucket.throttle_ms(limit, now_ms)


class ClientQuotas:
    """All quotas of a node's clients. window_ms, windows: `quota.window.size.seconds`, `quota.window.num`;
    the mutation quota has its own, `controller.quota.window.*`."""

    def __init__(
        self,
        *,
        window_ms: int = 1_000,
        windows: int = 11,
        controller_window_ms: int = 1_000,
        controller_windows: int = 11,
    ) -> None:
        self.produce = RateQuota(QuotaKey.PRODUCE, window_ms=window_ms, windows=windows)
        self.fetch = RateQuota(QuotaKey.FETCH, window_ms=window_ms, windows=windows)
        self.request = RateQuota(QuotaKey.REQUEST, window_ms=window_ms, windows=windows)
        self.controller_mutation = MutationQuota(window_ms=controller_window_ms, windows=controller_windows)

    def update(self, image: ClientQuotasImage) -> None:
        """Take over what the metadata log says."""
        for quota in (self.produce, self.fetch, self.request, self.controller_mutation):
            quota.update(image)

    def request_time(self, user: str, client_id: str, nanos: int, now_ms: int) -> int:
        """Count the time that a request took, and give how many ms the client must wait."""
        return self.request.record(user, client_id, nanos / NANOS_PER_PERCENT, now_ms)
