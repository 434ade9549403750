"""`/connector-plugins`: what this worker can run, the settings of each, and whether a configuration would do."""

from __future__ import annotations

from typing import Final

from aiohttp import web

from barnabas.connect.herder_port import BadRequestError, Herder
from barnabas.connect.rest import entities
from barnabas.connect.rest.endpoint import Endpoint, answered, flag, json_body
from barnabas.connect.rest.errors import RestError

_SUFFIX: Final = "Connector"


async def list_plugins(herder: Herder, request: web.Request) -> web.Response:
    """Give the plug-ins."""
    plugins = herder.plugins.all(connectors_only=flag(request, "connectorsOnly", default=True))
    return answered([entities.plugin_info(each) for each in plugins])


async def config_definitions(herder: Herder, request: web.Request) -> web.Response:
    """Give the settings of one."""
    version = request.query.get("version")
    return answered([dict(each) for each in herder.plugins.config_definitions(request.match_info["plugin"], version)])


async def validate(herder: Herder, request: web.Request) -> web.Response:
    """Say everything that is wrong with a configuration."""
    config = entities.parse_config(await json_body(request))
    plugin, named = request.match_info["plugin"], config.get("connector.class")
    if named is not None and not named.removesuffix(_SUFFIX).endswith(plugin.removesuffix(_SUFFIX)):
        raise BadRequestError(f"Included connector type {named} does not match request type {plugin}")
    try:
        return answered(entities.config_infos(await herder.plugins.validate(config)))
    except BadRequestError as e:
        raise RestError(500, str(e)) from None  # a JVM worker's status for a class that it does not have


ENDPOINTS: Final = (
    Endpoint(
        "GET",
        "/connector-plugins",
        "What this worker can run",
        list_plugins,
        query=(("connectorsOnly", "`false`: converters, transformations and predicates too"),),
    ),
    Endpoint(
        "GET",
        "/connector-plugins/{plugin}/config",
        "The settings of a plug-in",
        config_definitions,
        query=(("version", "or versions of the plug-in, such as `1.0` or `[1.0,2.0)`; `latest` unless given"),),
    ),
    Endpoint(
        "PUT",
        "/connector-plugins/{plugin}/config/validate",
        "Everything that is wrong with a configuration, at once",
        validate,
        body={"name": "flights-to-file", "connector.class": "FileStreamSink", "topics": "flights"},
    ),
)
