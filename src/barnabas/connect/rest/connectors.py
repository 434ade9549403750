"""`/connectors`: list, create, look at, configure, delete, pause, resume, stop, restart."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import quote

import structlog
from aiohttp import web

from barnabas.connect.herder_port import BadRequestError, ConnectorInfo, Herder, InvalidConfigError, NotFoundError
from barnabas.connect.rest import entities
from barnabas.connect.rest.endpoint import Endpoint, answered, done, flag, json_body
from barnabas.core.connect.restarts import RestartRequest

log = structlog.get_logger("kafka.connect.rest.connectors")

_IN_PATHS: Final = "!$&'()*+,;=:@"
"""What stands in a path as it is (RFC 3986)."""
_CONFIG: Final = {"connector.class": "FileStreamSink", "topics": "flights", "file": "/tmp/flights.txt"}


async def list_connectors(herder: Herder, request: web.Request) -> web.Response:
    """Give the names, or what `expand` asks for of each."""
    names = await herder.connectors()
    if "expand" not in request.query:
        return answered(list(names))
    found: dict[str, Any] = {}
    for name in names:
        try:
            found[name] = await _expanded(herder, name, request.query.getall("expand"))
        except NotFoundError:
            log.debug("a connector was deleted while it was looked at", connector=name)
    return answered(found)


async def _expanded(herder: Herder, name: str, expansions: list[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for expansion in expansions:
        if expansion == "status":
            found["status"] = entities.connector_state_info(herder.connector_status(name))
        elif expansion == "info":
            found["info"] = entities.connector_info(await herder.connector_info(name))
        else:
            log.info("unknown expansion", expand=expansion, known="status, info")
    return found


async def create(herder: Herder, request: web.Request) -> web.Response:
    """Create one; 409 when it is there."""
    name, config, state = entities.parse_create(await json_body(request))
    config = _named(name, config)
    _, info = await herder.put_connector_config(name, await _without_nulls(herder, config), state, allow_replace=False)
    return _configured(info, created=True)


async def get(herder: Herder, request: web.Request) -> web.Response:
    """Give one."""
    return answered(entities.connector_info(await herder.connector_info(_name(request))))


async def get_config(herder: Herder, request: web.Request) -> web.Response:
    """Give its configuration, references to secrets unresolved."""
    return answered(dict(await herder.connector_config(_name(request))))


async def put_config(herder: Herder, request: web.Request) -> web.Response:
    """Create or replace."""
    name = _name(request)
    config = _named(name, entities.parse_config(await json_body(request)))
    created, info = await herder.put_connector_config(name, await _without_nulls(herder, config), allow_replace=True)
    return _configured(info, created=created)


async def patch_config(herder: Herder, request: web.Request) -> web.Response:
    """Change some settings."""
    body = await json_body(request)
    if body is None:
        await herder.connector_config(_name(request))
    patch = entities.parse_config(body, what="A change of a configuration")
    return _configured(await herder.patch_connector_config(_name(request), patch), created=False)


async def delete(herder: Herder, request: web.Request) -> web.Response:
    """Delete one."""
    await herder.delete_connector(_name(request))
    return done()


async def status(herder: Herder, request: web.Request) -> web.Response:
    """Say how it does."""
    return answered(entities.connector_state_info(herder.connector_status(_name(request))))


async def restart(herder: Herder, request: web.Request) -> web.Response:
    """Restart the connector, its tasks, or what has failed of them."""
    wanted = RestartRequest(
        _name(request),
        only_failed=flag(request, "onlyFailed", default=False),
        include_tasks=flag(request, "includeTasks", default=False),
    )
    if wanted.connector_alone:
        await herder.restart_connector(wanted.connector)
        return done()
    return answered(entities.connector_state_info(await herder.restart_connector_and_tasks(wanted)), status=202)


async def stop(herder: Herder, request: web.Request) -> web.Response:
    """Take its tasks away."""
    await herder.stop_connector(_name(request))
    return done()


async def pause(herder: Herder, request: web.Request) -> web.Response:
    """Have it pause."""
    await herder.pause_connector(_name(request))
    return done(202)


async def resume(herder: Herder, request: web.Request) -> web.Response:
    """Have it go on."""
    await herder.resume_connector(_name(request))
    return done(202)


def _name(request: web.Request) -> str:
    return request.match_info["connector"]


async def _without_nulls(herder: Herder, config: dict[str, str | None]) -> dict[str, str]:
    """Give a configuration without nulls; InvalidConfigError, with everything that is wrong, when it has one."""
    if None in config.values():
        raise InvalidConfigError(await herder.plugins.validate(config))
    return {name: text for name, text in config.items() if text is not None}


def _named(name: str, config: dict[str, str | None]) -> dict[str, str | None]:
    included = config.get("name", name)
    if included != name:
        raise BadRequestError(
            f"Connector name configuration ({included}) doesn't match connector name in the URL ({name})"
        )
    return config | {"name": name}


def _configured(info: ConnectorInfo, *, created: bool) -> web.Response:
    location = f"/connectors/{quote(info.name, safe=_IN_PATHS)}" if created else None
    return answered(entities.connector_info(info), status=201 if created else 200, location=location)


ENDPOINTS: Final = (
    Endpoint(
        "GET",
        "/connectors",
        "The names of all connectors",
        list_connectors,
        query=(("expand", "`status` or `info`, may be given twice: those of each connector too"),),
    ),
    Endpoint(
        "POST",
        "/connectors",
        "Create a connector",
        create,
        body={"name": "flights-to-file", "config": _CONFIG, "initial_state": "RUNNING"},
        status=201,
    ),
    Endpoint("GET", "/connectors/{connector}", "A connector as configured", get),
    Endpoint("DELETE", "/connectors/{connector}", "Delete a connector", delete, status=204),
    Endpoint("GET", "/connectors/{connector}/config", "The configuration of a connector", get_config),
    Endpoint("PUT", "/connectors/{connector}/config", "Create or reconfigure a connector", put_config, body=_CONFIG),
    Endpoint(
        "PATCH",
        "/connectors/{connector}/config",
        "Change some settings of a connector; null takes one out",
        patch_config,
        body={"file": "/tmp/elsewhere.txt", "tasks.max": None},
    ),
    Endpoint("GET", "/connectors/{connector}/status", "How a connector and its tasks do", status),
    Endpoint(
        "POST",
        "/connectors/{connector}/restart",
        "Restart a connector",
        restart,
        query=(("includeTasks", "`true`: its tasks too"), ("onlyFailed", "`true`: only what has failed")),
        status=204,
    ),
    Endpoint(
        "PUT", "/connectors/{connector}/stop", "Take a connector's tasks away, keep its offsets", stop, status=204
    ),
    Endpoint("PUT", "/connectors/{connector}/pause", "Pause a connector and its tasks", pause, status=202),
    Endpoint("PUT", "/connectors/{connector}/resume", "Have a connector go on", resume, status=202),
)
