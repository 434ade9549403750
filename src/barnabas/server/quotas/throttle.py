"""Client quotas on the way of a request: records what a client used, puts on its answer how long it must wait.

The arithmetic is `server.quotas.client_quotas`. As in Kafka the largest of several waits counts, and the client is kept
waiting by its own connection: after the answer, nothing more is read from it for that long (KIP-13, KIP-124, KIP-219).
"""

from __future__ import annotations

from time import perf_counter_ns
from typing import TYPE_CHECKING, Protocol

from barnabas.core.metadata.delta import MetadataDelta
from barnabas.core.metadata.image import MetadataImage
from barnabas.model.ports import Clock
from barnabas.model.principal import KafkaPrincipal
from barnabas.server.quotas.client_quotas import ClientQuotas

if TYPE_CHECKING:
    from barnabas.server.config import NodeConfig


class Throttled(Protocol):
    """What is looked at of a request, and changed: `server.context.RequestContext`."""

    throttle_ms: int
    waited_ns: int
    started_ns: int

    @property
    def principal(self) -> KafkaPrincipal:
        """Give who asks."""
        ...

    @property
    def client_id(self) -> str | None:
        """Give how the client calls itself."""
        ...

    @property
    def privileged(self) -> bool:
        """Say whether it came in over a listener of the quorum."""
        ...


class Throttle:
    """Follows the quotas of the metadata log; costs nothing while there are none."""

    def __init__(self, config: NodeConfig, clock: Clock) -> None:
        self._clock = clock
        self.quotas = ClientQuotas(
            window_ms=config["quota.window.size.seconds"] * 1000,
            windows=config["quota.window.num"],
            controller_window_ms=config["controller.quota.window.size.seconds"] * 1000,
            controller_windows=config["controller.quota.window.num"],
        )

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Take up the quotas of a delta."""
        if delta.client_quotas or delta.snapshot:
            self.quotas.update(image.client_quotas)

    def produced(self, ctx: Throttled, count: int) -> None:
        """Record the bytes of a produce request."""
        if self.quotas.produce.enabled:
            self._wait(ctx, self.quotas.produce.record(*_who(ctx), count, self._clock.monotonic_ms()))

    def fetched(self, ctx: Throttled, count: int) -> bool:
        """Record the bytes of a fetch answer; False when it must go out empty, as the client has had too much."""
        quota = self.quotas.fetch
        if not quota.enabled:
            return True
        now_ms = self._clock.monotonic_ms()
        wait_ms = quota.record(*_who(ctx), count, now_ms)
        if wait_ms:
            quota.take_back(*_who(ctx), count, now_ms)
        self._wait(ctx, wait_ms)
        return not wait_ms

    def fetch_limit(self, ctx: Throttled, limit: int) -> int:
        """Give how many bytes a fetch may answer: `limit`, or less where a quota allows less at once."""
        if not self.quotas.fetch.enabled:
            return limit
        most = self.quotas.fetch.most_at_once(*_who(ctx))
        return limit if most is None else min(limit, int(most))

    def served(self, ctx: Throttled) -> None:
        """Record the time that a request took of this node's, not counting what it spent waiting."""
        if self.quotas.request.enabled and not ctx.privileged:
            nanos = perf_counter_ns() - ctx.started_ns - ctx.waited_ns
            self._wait(ctx, self.quotas.request_time(*_who(ctx), nanos, self._clock.monotonic_ms()))

    def encoded(self, ctx: Throttled, nanos: int) -> None:
        """Record the time that the answer took to encode; it is too late for the client to wait for that."""
        if self.quotas.request.enabled and not ctx.privileged:
            self.quotas.request_time(*_who(ctx), nanos, self._clock.monotonic_ms())

    @staticmethod
    def _wait(ctx: Throttled, wait_ms: int) -> None:
        ctx.throttle_ms = max(ctx.throttle_ms, wait_ms)


def _who(ctx: Throttled) -> tuple[str, str]:
    return ctx.principal.name, ctx.client_id or ""
