"""From a decoded header to an encoded answer: version, authorization, handler, refusal (design: data goes one way).

A router holds the handlers of one kind of listener; it is the only list of APIs, and ApiVersions is derived from it.
A request ends in one of four ways: an answer at once, an answer later, no answer (Produce with acks=0), or
`ProtocolError`, which closes the connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import structlog

from barnabas.core.forwarding.throttle_time import with_throttle_time
from barnabas.model.acl import CLUSTER_NAME, AclOperation, ResourceType
from barnabas.server.refused_peers import RefusedPeers
from barnabas.wire.api_keys import API_KEYS, ApiKey, ApiRow
from barnabas.wire.errors import ApiError, ErrorCode, ProtocolError
from barnabas.wire.header import response_header
from barnabas.wire.message import decode_from, encode_into
from barnabas.wire.primitives import Records
from barnabas.wire.refusals import refuse

if TYPE_CHECKING:
    from barnabas.server.context import RequestContext

log = structlog.get_logger("kafka.request.logger")


@dataclass(frozen=True, slots=True)
class Rule:
    """How a request is authorized before its handler runs.

    cluster: the operation wanted on the cluster, None for no check here; by_handler: the handler consults
    `ctx.authorize...` itself, and an answer without any decision is never sent.
    """

    cluster: AclOperation | None = None
    by_handler: bool = False

    def __str__(self) -> str:
        if self.cluster is not None:
            return f"{self.cluster.name} on the cluster"
        return "by resource" if self.by_handler else "anybody"


ALWAYS_ALLOWED: Final = Rule()
BY_HANDLER: Final = Rule(by_handler=True)


def on_cluster(operation: AclOperation) -> Rule:
    """Ask for `operation` on the cluster resource."""
    return Rule(cluster=operation)


Answer = Any
"""A response message, `NO_ANSWER`, or `Forwarded`."""


class NoAnswer:
    """What a handler returns when nothing is to be sent."""


NO_ANSWER: Final = NoAnswer()


@dataclass(frozen=True, slots=True)
class Forwarded:
    """An answer that another node has encoded already: header and body as they go to the client (KIP-590)."""

    frame: bytes


class Promised(NamedTuple):
    """An answer that a handler left to somebody else: nothing runs for the request until it is there.

    begun_ns: when the wait for it began.
    """

    request: Any
    answer: asyncio.Future[Answer]
    begun_ns: int


Function = Callable[[Any, "RequestContext"], Answer | Awaitable[Answer]]


@dataclass(frozen=True, slots=True)
class Handler:
    """A handler and what it declared."""

    row: ApiRow
    rule: Rule
    function: Function


F = TypeVar("F", bound=Callable[..., Any])
_MARK: Final = "__barnabas_handles__"


def handles(request: type, *, authz: Rule) -> Callable[[F], F]:
    """Mark a function as the handler of `request`; the tuples in `handlers/__init__.py` put it to work.

    A plain function answers at once or gives an awaitable; it must be quick. A future costs least, as nothing has to
    run until it is done. `async def` runs as a task, in order with the other requests of its connection.
    """

    def mark(function: F) -> F:
        row = API_KEYS[request.API_KEY]  # type: ignore[attr-defined]
        setattr(function, _MARK, Handler(row, authz, function))
        return function

    return mark


Forward = Callable[["RequestContext", memoryview], Awaitable[Answer]]
"""Carries a forwardable request to the active controller; gets the whole frame, header included."""


class Router:
    """The handlers of one kind of listener."""

    def __init__(
        self,
        modules: Sequence[str],
        *,
        listener: str,
        forward: Forward | None = None,
        forwarded: Sequence[str] | None = None,
    ) -> None:
        """modules: of `server.handlers`, each called as its function and as its API, unless that stands before a colon;
        listener: "broker" or "controller", as the api_keys table spells them; forward: where requests go that have no
        handler here but are forwardable; forwarded: the modules that controllers have for such, None for all."""
        self.listener = listener
        self._forward = forward
        self._carried = None if forwarded is None else {_key_of(m) for m in forwarded}
        self._modules = {_key_of(m): m.rpartition(":")[2] for m in modules}
        self._loaded: dict[int, Handler] = {}
        self._refused_peers = RefusedPeers()
        if len(self._modules) != len(modules):
            raise ValueError("an API has two handlers")

    def handler(self, row: ApiRow) -> Handler | None:
        """Give the handler of an API, None when it has none here."""
        key = int(row.key)
        found = self._loaded.get(key)
        if found is None and key in self._modules:
            module = self._modules[key]
            function = getattr(import_module(f"barnabas.server.handlers.{module}"), module)
            found = self._loaded[key] = getattr(function, _MARK)
        return found

    def forwards(self, row: ApiRow) -> bool:
        """Say whether a request of that API goes to the controller."""
        if self._forward is None or not row.forwardable or self.listener not in row.listeners:
            return False
        if self._carried is not None and int(row.key) not in self._carried:
            return False
        return int(row.key) not in self._modules

    def serves(self, row: ApiRow) -> bool:
        """Say whether a request of that API is served here at all."""
        return int(row.key) in self._modules or self.forwards(row)

    @cached_property
    def rows(self) -> tuple[ApiRow, ...]:
        """Every API that is served here, by key; of those forwarded ApiVersions lists what the controller has."""
        return tuple(sorted((row for row in API_KEYS.values() if self.serves(row)), key=lambda row: int(row.key)))

    @cached_property
    def forwarded_rows(self) -> tuple[ApiRow, ...]:
        """Those of them that go to the controller."""
        return tuple(row for row in self.rows if self.forwards(row))

    @cached_property
    def versions(self) -> Mapping[int, tuple[int, int]]:
        """The lowest and the highest version of each of them, by key."""
        return {int(row.key): (row.min_version, row.max_version) for row in self.rows}

    def route(
        self, ctx: RequestContext, frame: memoryview, body_at: int
    ) -> Coroutine[Any, Any, list[Records]] | Promised | list[Records]:
        """Serve a request whose header has been read; gives the parts of the answer, [] for none.

        They come later by a coroutine, or by `kept` once the answer is there that is promised. Raises ProtocolError
        when the connection must be closed.
        """
        row = ctx.row
        handler = self._loaded.get(row.key) or self.handler(row)
        if handler is None and not self.serves(row):
            raise ProtocolError(f"{row.key.name} is not served on a {self.listener} listener")
        if not row.min_version <= ctx.version <= row.max_version:
            return self._wrong_version(ctx)
        if handler is None:
            return self._later(ctx, None, self._forwarded(ctx, bytes(frame), body_at), perf_counter_ns())
        # As in Kafka, bytes after the body are nobody's business: librdkafka sends some.
        request, _ = decode_from(row.request, ctx.version, frame, body_at)
        try:
            refusal = self._refused(handler, request, ctx)
            if refusal is not None:
                return self.encode(ctx, refusal)
            answer = handler.function(request, ctx)
        except ApiError as e:
            return self.encode(ctx, self._explained(request, ctx, e))
        except ProtocolError:
            raise
        except Exception:  # noqa: BLE001 - the one place that turns a defect into UNKNOWN_SERVER_ERROR
            return self.encode(ctx, self._failed(request, ctx))
        # The class first: most answers are there at once, and asking an abstract class costs more than the rest here.
        if answer.__class__ is row.response:
            return self.encode(ctx, answer)
        return self._in_time(ctx, request, answer)

    def _in_time(
        self, ctx: RequestContext, request: Any, answer: Answer | Awaitable[Answer]
    ) -> Coroutine[Any, Any, list[Records]] | Promised | list[Records]:
        if isinstance(answer, asyncio.Future):
            promised = Promised(request, answer, perf_counter_ns())
            return self.kept(ctx, promised) if answer.done() else promised
        if isinstance(answer, Awaitable):
            return self._later(ctx, request, answer, perf_counter_ns())
        return self.encode(ctx, answer)

    def kept(self, ctx: RequestContext, promised: Promised) -> list[Records]:
        """Give the parts of an answer that was promised, and is there."""
        ctx.waited_ns += perf_counter_ns() - promised.begun_ns
        try:
            answer = promised.answer.result()
        except ApiError as e:
            answer = self._explained(promised.request, ctx, e)
        except Exception:  # noqa: BLE001 - as in route()
            answer = self._failed(promised.request, ctx)
        return self.encode(ctx, answer)

    async def serve_message(self, request: Any, ctx: RequestContext) -> Answer:
        """Serve a decoded request and give the answer as a message: the way in for a forwarded one."""
        handler = self.handler(ctx.row)
        if handler is None:
            raise ProtocolError(f"{ctx.row.key.name} is not served on a {self.listener} listener")
        refusal = self._refused(handler, request, ctx)
        if refusal is not None:
            return refusal
        return await self._answer(ctx, request, self._called(handler, request, ctx))

    @staticmethod
    async def _called(handler: Handler, request: Any, ctx: RequestContext) -> Answer:
        answer = handler.function(request, ctx)
        return await answer if isinstance(answer, Awaitable) else answer

    def _refused(self, handler: Handler, request: Any, ctx: RequestContext) -> Answer | None:
        rule = handler.rule
        if rule.by_handler:
            return None
        if rule.cluster is None:
            ctx.authz.decided = True
            return None
        allowed = False
        try:
            allowed = ctx.authorize(rule.cluster, ResourceType.CLUSTER, CLUSTER_NAME)
        finally:
            if not allowed and rule.cluster is AclOperation.CLUSTER_ACTION:
                self._refused_peers.refused(ctx)
        if allowed:
            return None
        why = f"not authorized: {rule.cluster.name} on the cluster would allow it"
        return refuse(request, ctx.version, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, why)

    async def _forwarded(self, ctx: RequestContext, frame: bytes, body_at: int) -> Answer:
        assert self._forward is not None
        ctx.authz.decided = True  # the controller decides (KIP-590)
        return await self._forward(ctx, memoryview(frame))

    async def _later(
        self, ctx: RequestContext, request: Any, answer: Awaitable[Answer], put_off_ns: int
    ) -> list[Records]:
        ctx.queued_ns = perf_counter_ns() - put_off_ns  # until the loop came to this task
        ctx.waited_ns += ctx.queued_ns
        return self.encode(ctx, await self._answer(ctx, request, answer))

    async def _answer(self, ctx: RequestContext, request: Any, answer: Answer | Awaitable[Answer]) -> Answer:
        try:
            return await worked_on(answer, ctx) if isinstance(answer, Awaitable) else answer
        except ApiError as e:
            return self._explained(request, ctx, e)
        except (ProtocolError, asyncio.CancelledError):
            raise
        except Exception:  # noqa: BLE001 - as in route()
            return self._failed(request, ctx)

    def _explained(self, request: Any, ctx: RequestContext, error: ApiError) -> Answer:
        ctx.authz.decided = True
        return refuse(request, ctx.version, error.code, error.message)

    def _failed(self, request: Any, ctx: RequestContext) -> Answer:
        log.exception(
            "request failed",
            api=ctx.row.key.name,
            version=ctx.version,
            client_id=ctx.client_id,
            principal=str(ctx.principal),
            peer=ctx.host,
        )
        ctx.authz.decided = True
        if request is None:
            raise ProtocolError("the request could not be forwarded")
        return refuse(request, ctx.version, ErrorCode.UNKNOWN_SERVER_ERROR)

    def _wrong_version(self, ctx: RequestContext) -> list[Records]:
        if ctx.row.key is not ApiKey.API_VERSIONS:
            raise ProtocolError(
                f"{ctx.row.key.name} version {ctx.version}; {ctx.row.min_version} to {ctx.row.max_version} are served"
            )
        # KIP-511: an ApiVersions of a version we do not know is answered in version 0, with what we do know.
        ctx.version = 0
        ctx.authz.decided = True
        answer = refuse(ctx.row.request(), 0, ErrorCode.UNSUPPORTED_VERSION)
        return self.encode(ctx, answer)

    def encode(self, ctx: RequestContext, answer: Answer) -> list[Records]:
        """Give the parts of the frame, its length first; fails closed when nobody decided on the request."""
        if not ctx.authz.decided:
            raise ProtocolError(f"{ctx.row.key.name} was answered without an authorization decision")
        if answer is NO_ANSWER:
            return []
        ctx.node.quotas.served(ctx)
        if isinstance(answer, Forwarded):
            return framed([_relayed(ctx, answer.frame)])
        ctx.stats.count_errors(answer)
        if ctx.throttle_ms and hasattr(answer, "throttle_time_ms"):
            answer.throttle_time_ms = ctx.throttle_ms
        begin_ns = perf_counter_ns()
        parts: list[Records] = [response_header(ctx.row, ctx.version, ctx.correlation_id)]
        encode_into(answer, ctx.version, parts)
        ctx.node.quotas.encoded(ctx, perf_counter_ns() - begin_ns)
        return framed(parts)


def _key_of(module: str) -> int:
    return int(ApiKey[module.partition(":")[0].upper()])


def _relayed(ctx: RequestContext, frame: bytes) -> bytes:
    """Give another node's answer, with the time that the client is kept waiting in it: the longer of the two nodes'."""
    return with_throttle_time(ctx.row, ctx.version, frame, ctx.throttle_ms) if ctx.throttle_ms else frame


class worked_on:  # noqa: N801 - reads like the function it stands for
    """Awaits for a request, and notes on it the time in which nothing was done for it (KIP-124 counts work alone)."""

    __slots__ = ("_awaited", "_ctx")

    def __init__(self, awaited: Awaitable[Answer], ctx: RequestContext) -> None:
        self._awaited = awaited
        self._ctx = ctx

    def __await__(self) -> Generator[Any, Any, Answer]:
        steps = self._awaited.__await__()
        ctx = self._ctx
        error: BaseException | None = None
        while True:
            try:
                awaited = steps.throw(error) if error is not None else next(steps)
            except StopIteration as e:
                return e.value
            error = None
            begin = perf_counter_ns()
            try:
                yield awaited
            except BaseException as e:  # noqa: BLE001 - a cancellation, handed on
                error = e
            ctx.waited_ns += perf_counter_ns() - begin


_IN_MEMORY: Final = (bytes, bytearray, memoryview)  # quicker to ask for than their union


def framed(parts: list[Records]) -> list[Records]:
    """Give `parts` as a frame, its length first: neighbours in memory joined, files kept apart."""
    size = 0
    in_memory = True
    for part in parts:
        size += len(part)
        if in_memory and not isinstance(part, _IN_MEMORY):
            in_memory = False
    run: list[Any] = [size.to_bytes(4, "big")]
    if in_memory:
        run += parts
        return [b"".join(run)]
    out: list[Records] = []
    for part in parts:
        if isinstance(part, _IN_MEMORY):
            run.append(part)
        else:
            out.append(b"".join(run))
            out.append(part)
            run = []
    if run:
        out.append(b"".join(run))
    return out
