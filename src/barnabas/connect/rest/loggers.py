"""`/admin/loggers`: the levels of loggers, of this worker or of the whole group (KIP-495, KIP-976)."""

from __future__ import annotations

from typing import Final

import structlog
from aiohttp import web

from barnabas.connect.herder_port import BadRequestError, Herder, NotFoundError
from barnabas.connect.rest import entities
from barnabas.connect.rest.endpoint import Endpoint, answered, done, json_body

log = structlog.get_logger("kafka.connect.rest.loggers")

LEVELS: Final = frozenset({"OFF", "FATAL", "ERROR", "WARN", "INFO", "DEBUG", "TRACE", "ALL"})
_WORKER, _CLUSTER = "worker", "cluster"


async def list_loggers(herder: Herder, request: web.Request) -> web.Response:
    """Give those that have a level of their own."""
    return answered({name: entities.logger_level(level) for name, level in sorted(herder.loggers().items())})


async def get_logger(herder: Herder, request: web.Request) -> web.Response:
    """Give the level of one."""
    name = request.match_info["logger"]
    level = herder.loggers().get(name)
    if level is None:
        raise NotFoundError(f"Logger {name} not found.")
    return answered(entities.logger_level(level))


async def set_level(herder: Herder, request: web.Request) -> web.Response:
    """Set the level of one and of those below it."""
    level = entities.parse_config(await json_body(request), what="The level of a logger").get("level")
    if level is None:
        raise BadRequestError("Desired 'level' parameter was not specified in request.")
    if str(level).upper() not in LEVELS:
        raise NotFoundError(f"invalid log level '{level}'.")
    name, scope = request.match_info["logger"], request.query.get("scope", _WORKER).lower()
    if scope == _CLUSTER:
        await herder.set_cluster_logger_level(name, str(level).upper())
        return done()
    if scope != _WORKER:
        log.warning("unknown scope, taking this worker", scope=scope, known=f"{_WORKER}, {_CLUSTER}")
    return answered(list(herder.set_worker_logger_level(name, str(level).upper())))


ENDPOINTS: Final = (
    Endpoint("GET", "/admin/loggers", "The loggers that have a level of their own", list_loggers, admin=True),
    Endpoint("GET", "/admin/loggers/{logger}", "The level of a logger", get_logger, admin=True),
    Endpoint(
        "PUT",
        "/admin/loggers/{logger}",
        "Set the level of a logger and of those below it",
        set_level,
        query=(("scope", "`worker`, which is meant unless given, or `cluster`"),),
        body={"level": "DEBUG"},
        admin=True,
    ),
)
