"""The application: endpoints to routes, errors to answers, requests for another worker passed on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import aiohttp
import structlog
from aiohttp import hdrs, web
from aiohttp.typedefs import Middleware

from barnabas.connect.herder_port import Herder, HerderError, RequestTargetError
from barnabas.connect.rest import connectors, internal, loggers, openapi, plugins, root, tasks
from barnabas.connect.rest.auth import BasicAuth
from barnabas.connect.rest.endpoint import Endpoint, check_types
from barnabas.connect.rest.errors import RestError, as_rest_error, error_response
from barnabas.connect.rest.relay import relay
from barnabas.core.connect.signature import InternalRequestError

log = structlog.get_logger("kafka.connect.rest")

RESOURCES: Final = (
    *root.ENDPOINTS,
    *connectors.ENDPOINTS,
    *tasks.ENDPOINTS,
    *internal.ENDPOINTS,
    *plugins.ENDPOINTS,
    *loggers.ENDPOINTS,
)
REQUEST_TIMEOUT_S: Final = 90.0
LARGEST_BODY_BYTES: Final = 16 * 1024 * 1024

_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True)
class RestPolicy:
    """What the worker's settings say of every request.

    auth: None lets everybody in. allow_origin and allow_methods: for pages of other origins (CORS), empty for none.
    headers: added to every answer. topic_tracking, topic_tracking_reset: whether active topics can be asked for, and
    be forgotten.
    """

    auth: BasicAuth | None = None
    allow_origin: str = ""
    allow_methods: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    topic_tracking: bool = True
    topic_tracking_reset: bool = True


def make_app(
    herder: Herder, session: aiohttp.ClientSession, policy: RestPolicy, endpoints: Sequence[Endpoint]
) -> web.Application:
    """Give the application that serves these endpoints of a herder; `session` reaches the other workers."""
    app = web.Application(client_max_size=LARGEST_BODY_BYTES, middlewares=[_decorated(policy), _errors_told])
    described = openapi.document(endpoints)
    shown = openapi.page(endpoints)
    for endpoint in endpoints:
        route = _route(endpoint, herder, session, policy)
        for path in _spellings(endpoint.path):
            app.router.add_route(endpoint.method, path, route)
            if endpoint.method == hdrs.METH_GET:
                app.router.add_route(hdrs.METH_HEAD, path, route)
    for path in dict.fromkeys(each.path for each in endpoints):
        for spelt in _spellings(path):
            app.router.add_route(hdrs.METH_OPTIONS, spelt, _methods(path, endpoints))
    if any(not each.admin for each in endpoints):
        app.router.add_get("/openapi.json", _fixed(policy, lambda: web.json_response(described)))
        app.router.add_get("/docs", _fixed(policy, lambda: web.Response(text=shown, content_type="text/html")))
    return app


def endpoints_of(policy: RestPolicy, *, public: bool, admin: bool) -> list[Endpoint]:
    """Give what a listener serves. public: connectors and what belongs to them; admin: loggers."""
    everything = [*RESOURCES, *_topics(policy)]
    return [each for each in everything if (admin if each.admin else public)]


def _topics(policy: RestPolicy) -> list[Endpoint]:
    reads = tasks.TOPIC_ENDPOINTS if policy.topic_tracking else _forbidden(tasks.TOPIC_ENDPOINTS, "Topic tracking")
    if not policy.topic_tracking:
        return [*reads, *_forbidden(tasks.TOPIC_RESET_ENDPOINTS, "Topic tracking")]
    if not policy.topic_tracking_reset:
        return [*reads, *_forbidden(tasks.TOPIC_RESET_ENDPOINTS, "Topic tracking reset")]
    return [*reads, *tasks.TOPIC_RESET_ENDPOINTS]


def _forbidden(endpoints: Sequence[Endpoint], what: str) -> list[Endpoint]:
    async def refuse(herder: Herder, request: web.Request) -> web.Response:
        raise RestError(403, f"{what} is disabled.")

    return [Endpoint(each.method, each.path, each.summary, refuse) for each in endpoints]


def _spellings(path: str) -> tuple[str, ...]:
    """Give a path, and with a slash at the end, which means the same to a JVM worker."""
    return (path,) if path.endswith("/") else (path, path + "/")


def _route(endpoint: Endpoint, herder: Herder, session: aiohttp.ClientSession, policy: RestPolicy) -> _Handler:
    async def serve(request: web.Request) -> web.StreamResponse:
        if policy.auth is not None and not endpoint.internal:
            policy.auth.check(request)
        if not endpoint.internal:
            check_types(request)
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT_S):
                return await _answered_here_or_there(endpoint, herder, session, request)
        except TimeoutError:
            stage = herder.health().stage
            raise RestError(500, f"Request timed out. The worker is currently {stage or 'idle'}.") from None

    return serve


async def _answered_here_or_there(
    endpoint: Endpoint, herder: Herder, session: aiohttp.ClientSession, request: web.Request
) -> web.Response:
    try:
        return await endpoint.answer(herder, request)
    except RequestTargetError as target:
        return await relay(session, request, target)


def _methods(path: str, endpoints: Sequence[Endpoint]) -> _Handler:
    methods = {each.method for each in endpoints if each.path == path} | {hdrs.METH_OPTIONS}
    if hdrs.METH_GET in methods:
        methods.add(hdrs.METH_HEAD)

    async def serve(request: web.Request) -> web.StreamResponse:
        return web.Response(headers={hdrs.ALLOW: ",".join(sorted(methods))})

    return serve


def _fixed(policy: RestPolicy, answer: Callable[[], web.Response]) -> _Handler:
    async def serve(request: web.Request) -> web.StreamResponse:
        if policy.auth is not None:
            policy.auth.check(request)
        return answer()

    return serve


@web.middleware
async def _errors_told(request: web.Request, handler: _Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except (RestError, HerderError, InternalRequestError, web.HTTPException) as e:
        return error_response(as_rest_error(e))
    except Exception as e:  # a request must not end without an answer
        log.error("a request failed", method=request.method, path=request.path, exc_info=True)
        return error_response(as_rest_error(e))


def _decorated(policy: RestPolicy) -> Middleware:
    @web.middleware
    async def decorate(request: web.Request, handler: _Handler) -> web.StreamResponse:
        crosses = bool(policy.allow_origin) and hdrs.ORIGIN in request.headers
        if crosses and request.method == hdrs.METH_OPTIONS:
            response: web.StreamResponse = web.Response(status=200)
        else:
            response = await handler(request)
        for name, value in policy.headers.items():
            response.headers[name] = value
        if crosses:
            _allow(policy, request, response)
        return response

    return decorate


def _allow(policy: RestPolicy, request: web.Request, response: web.StreamResponse) -> None:
    origin = request.headers[hdrs.ORIGIN]
    allowed = [each.strip() for each in policy.allow_origin.split(",")]
    if "*" not in allowed and origin not in allowed:
        return
    response.headers[hdrs.ACCESS_CONTROL_ALLOW_ORIGIN] = origin
    if request.method == hdrs.METH_OPTIONS:
        response.headers[hdrs.ACCESS_CONTROL_ALLOW_METHODS] = policy.allow_methods or "GET,POST,HEAD"
        response.headers[hdrs.ACCESS_CONTROL_ALLOW_HEADERS] = "X-Requested-With,Content-Type,Accept,Origin"
