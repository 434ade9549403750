"""What a node shows of the requests it has answered: `kafka.network:type=RequestMetrics`.

An answer costs one tuple in a ring; the histograms of times and sizes are columns of the latest 1,024 of them, made
when somebody looks. A fetch counts as FetchConsumer or FetchFollower and as Fetch, which is both together.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from time import perf_counter_ns
from typing import TYPE_CHECKING, Final

from barnabas.model.metrics import Bean, Metrics, Number, Rates, distribution, mbean
from barnabas.wire.api_keys import API_KEYS, ApiKey
from barnabas.wire.error_counts import CountErrors, Counts, error_counter
from barnabas.wire.errors import ErrorCode

if TYPE_CHECKING:
    from barnabas.server.context import RequestContext
    from barnabas.wire.message import Message

REQUEST_NAMES: Final = {int(key): row.name for key, row in API_KEYS.items()}
HEAD: Final = "kafka.network:type=RequestMetrics"
_RING: Final = 1024
_VERSIONS: Final = 1 + max(row.max_version for row in API_KEYS.values())
_NS_A_MS: Final = 1e6

Sample = tuple[int, int, int, int, int, int, int]
"""One request: (ns that it waited for its handler to begin, ns in which nobody here worked on it, that wait included;
the times, in ns, when it was read, was answered, and when the socket had the answer; ms that the client was made to
wait; bytes of its frame). A plain tuple without any arithmetic, since every request makes one."""

_COLUMNS: Final[tuple[tuple[str, Callable[[Sample], Number]], ...]] = (
    ("RequestQueueTimeMs", lambda s: s[0] / _NS_A_MS),
    ("LocalTimeMs", lambda s: max(0, s[3] - s[2] - s[1]) / _NS_A_MS),
    ("RemoteTimeMs", lambda s: (s[1] - s[0]) / _NS_A_MS),
    ("ResponseSendTimeMs", lambda s: (s[4] - s[3]) / _NS_A_MS),
    ("TotalTimeMs", lambda s: (s[4] - s[2]) / _NS_A_MS),
    ("ThrottleTimeMs", lambda s: s[5]),
    ("RequestBytes", lambda s: s[6]),
)


class RequestStats:
    """One kind of request. versions: how many of each version, by index; errors: codes in the answers, NONE among them;
    bytes_in: of frames; bytes_out: with their lengths; unanswered: those that wanted no answer.

    count_errors: takes each answer, as a message.
    """

    __slots__ = (
        "_followers",
        "_samples",
        "bytes_in",
        "bytes_out",
        "count",
        "count_errors",
        "errors",
        "since_ms",
        "unanswered",
        "versions",
    )

    def __init__(self, since_ms: int = 0) -> None:
        self.since_ms = since_ms
        self.count = self.bytes_in = self.bytes_out = self.unanswered = 0
        self.versions = [0] * _VERSIONS
        self.errors: Counts = defaultdict(int)
        self.count_errors: CountErrors = self._first
        self._samples: list[Sample] = []
        self._followers: RequestStats | None = None

    def _first(self, answer: Message) -> None:
        """Learn what the answers to this kind of request are."""
        self.count_errors = error_counter(answer.__class__, self.errors)
        self.count_errors(answer)

    def answered(self, ctx: RequestContext, answered_ns: int, size: int) -> None:
        """Count a request whose answer the socket has by now. answered_ns: when there was one; size: of it."""
        count = self.count
        sample = (
            ctx.queued_ns, ctx.waited_ns, ctx.started_ns, answered_ns, perf_counter_ns(), ctx.throttle_ms, ctx.size
        )  # fmt: skip
        if count < _RING:
            self._samples.append(sample)
        else:
            self._samples[count % _RING] = sample
        self.count = count + 1
        self.bytes_in += ctx.size
        self.bytes_out += size
        if not size:
            self.unanswered += 1
        self.versions[ctx.version] += 1

    def of_followers(self) -> RequestStats:
        """Give where such requests of other brokers are counted."""
        if self._followers is None:
            self._followers = RequestStats(self.since_ms)
        return self._followers

    @property
    def parts(self) -> tuple[RequestStats, ...]:
        """Give this, and what is counted apart for other brokers."""
        return (self,) if self._followers is None else (self, self._followers)

    @property
    def samples(self) -> list[Sample]:
        """Give the latest requests, in no order."""
        return self._samples


class RequestTable(dict[int, RequestStats]):
    """The requests that came by one way, by API key; an item is made when it is first asked for."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms

    def __missing__(self, api_key: int) -> RequestStats:
        found = self[api_key] = RequestStats(self._now_ms())
        return found

    def all(self) -> list[RequestStats]:
        """Give every kind, those of other brokers apart."""
        return [part for stats in self.values() for part in stats.parts]

    @property
    def largest(self) -> int:
        """Give the bytes of the largest request, of the latest 1,024 of each kind."""
        return max((sample[6] for stats in self.all() for sample in stats.samples), default=0)


class RequestMetrics:
    """The requests of a node. forwarded: those that came in Envelopes, and went by no socket of their own."""

    def __init__(self, registry: Metrics) -> None:
        self._clock = registry.clock
        self._tables: list[RequestTable] = []
        self._rates: dict[str, Rates] = {}
        self.forwarded = self.table()
        registry.source(HEAD, self._beans)

    def table(self) -> RequestTable:
        """Give where to count the requests that come by one more way: a listener."""
        self._tables.append(RequestTable(self._clock.monotonic_ms))
        return self._tables[-1]

    def _kinds(self) -> Iterator[tuple[str, list[RequestStats]]]:
        for key, name in REQUEST_NAMES.items():
            found = [stats for table in self._tables if (stats := table.get(key)) is not None]
            if key == ApiKey.FETCH:
                yield "FetchConsumer", found
                yield "FetchFollower", [one for stats in found for one in stats.parts[1:]]
            yield name, [one for stats in found for one in stats.parts]

    def _beans(self) -> Iterator[Bean]:
        for name, found in self._kinds():
            count = sum(one.count for one in found)
            if not count:
                continue
            since_ms = min(one.since_ms for one in found)
            for version, number in _sums(dict(enumerate(one.versions)) for one in found):
                yield self._meter("RequestsPerSec", number, since_ms, request=name, version=str(version))
            for code, number in _sums(one.errors for one in found):
                yield self._meter("ErrorsPerSec", number, since_ms, request=name, error=ErrorCode(code).name)
            samples = [sample for one in found for sample in one.samples]
            for column, read in _COLUMNS:
                yield _name(column, request=name), distribution([read(s) for s in samples], count)

    def _meter(self, name: str, count: int, since_ms: int, **tags: str) -> Bean:
        bean = _name(name, **tags)
        rates = self._rates.get(bean)
        if rates is None:
            rates = self._rates[bean] = Rates(self._clock, since_ms)
        return bean, rates.attributes(count, "requests")


def _sums(counts: Iterable[dict[int, int]]) -> list[tuple[int, int]]:
    found: Counts = defaultdict(int)
    for one in counts:
        for key, number in one.items():
            found[key] += number
    return sorted((key, number) for key, number in found.items() if number)


def _name(name: str, **tags: str) -> str:
    return mbean("kafka.network", type="RequestMetrics", name=name, **tags)
