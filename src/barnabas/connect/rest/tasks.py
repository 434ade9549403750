"""`/connectors/<name>/tasks`, `/topics` and `/offsets`: what belongs to one connector."""

from __future__ import annotations

from typing import Final

from aiohttp import web

from barnabas.connect.herder_port import Herder, NotFoundError
from barnabas.connect.rest import entities
from barnabas.connect.rest.endpoint import Endpoint, answered, done, json_body
from barnabas.core.connect.ids import ConnectorTaskId


async def list_tasks(herder: Herder, request: web.Request) -> web.Response:
    """Give its tasks as configured."""
    return answered([entities.task_info(each) for each in await herder.task_configs(request.match_info["connector"])])


async def task_status(herder: Herder, request: web.Request) -> web.Response:
    """Say how a task does."""
    return answered(entities.task_state(herder.task_status(_task(request))))


async def restart_task(herder: Herder, request: web.Request) -> web.Response:
    """Restart one task."""
    await herder.restart_task(_task(request))
    return done()


async def active_topics(herder: Herder, request: web.Request) -> web.Response:
    """Give the topics it was seen to use."""
    name = request.match_info["connector"]
    return answered({name: {"topics": list(herder.connector_active_topics(name))}})


async def reset_active_topics(herder: Herder, request: web.Request) -> web.Response:
    """Forget the topics it was seen to use."""
    await herder.reset_connector_active_topics(request.match_info["connector"])
    return done(202)


async def get_offsets(herder: Herder, request: web.Request) -> web.Response:
    """Say where it is."""
    return answered(entities.connector_offsets(await herder.connector_offsets(request.match_info["connector"])))


async def alter_offsets(herder: Herder, request: web.Request) -> web.Response:
    """Move it."""
    offsets = entities.parse_offsets(await json_body(request))
    return answered({"message": await herder.alter_connector_offsets(request.match_info["connector"], offsets)})


async def reset_offsets(herder: Herder, request: web.Request) -> web.Response:
    """Have it begin again."""
    return answered({"message": await herder.reset_connector_offsets(request.match_info["connector"])})


def _task(request: web.Request) -> ConnectorTaskId:
    number = request.match_info["task"]
    if not number.isdecimal():
        raise NotFoundError(f"A task is named by its number, from 0; {number!r} is none")
    return ConnectorTaskId(request.match_info["connector"], int(number))


ENDPOINTS: Final = (
    Endpoint("GET", "/connectors/{connector}/tasks", "The tasks of a connector as configured", list_tasks),
    Endpoint("GET", "/connectors/{connector}/tasks/{task}/status", "How a task does", task_status),
    Endpoint("POST", "/connectors/{connector}/tasks/{task}/restart", "Restart a task", restart_task, status=204),
    Endpoint("GET", "/connectors/{connector}/offsets", "Where a connector is", get_offsets),
    Endpoint(
        "PATCH",
        "/connectors/{connector}/offsets",
        "Move a stopped connector",
        alter_offsets,
        body={
            "offsets": [
                {
                    "partition": {"kafka_topic": "flights", "kafka_partition": 0},
                    "offset": {"kafka_offset": 1000},
                }
            ]
        },
    ),
    Endpoint("DELETE", "/connectors/{connector}/offsets", "Have a stopped connector begin again", reset_offsets),
)

TOPIC_ENDPOINTS: Final = (
    Endpoint("GET", "/connectors/{connector}/topics", "The topics that a connector was seen to use", active_topics),
)
"""Where `topic.tracking.enable` is on."""

TOPIC_RESET_ENDPOINTS: Final = (
    Endpoint(
        "PUT",
        "/connectors/{connector}/topics/reset",
        "Forget the topics that a connector was seen to use",
        reset_active_topics,
        status=202,
    ),
)
"""Where `topic.tracking.allow.reset` is on as well."""
