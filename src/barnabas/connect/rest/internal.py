"""What workers ask of each other, signed with the session key where the group signs (KIP-507).

The signature is checked on the bytes as they came, before anything is parsed (H-29), by every worker that is asked;
who is not the leader passes on bytes and headers as they are (H-28).
"""

from __future__ import annotations

from typing import Final

from aiohttp import web

from barnabas.connect.herder_port import Herder, InternalRequest
from barnabas.connect.rest import entities
from barnabas.connect.rest.endpoint import Endpoint, answered, done, parsed


async def put_task_configs(herder: Herder, request: web.Request) -> web.Response:
    """Take what a connector made for its tasks; 200 and `null`, as the document wants it."""
    body = await request.read()
    herder.verify_internal_request(InternalRequest(body, request.headers))
    configs = entities.parse_task_configs(parsed(body))
    await herder.put_task_configs(request.match_info["connector"], configs)
    return answered(None)


async def fence(herder: Herder, request: web.Request) -> web.Response:
    """Shut out a source's tasks of before; 204, when the tasks of now may begin (KIP-618)."""
    herder.verify_internal_request(InternalRequest(await request.read(), request.headers))
    await herder.fence_zombie_source_tasks(request.match_info["connector"])
    return done()


ENDPOINTS: Final = (
    Endpoint(
        "POST", "/connectors/{connector}/tasks", "Between workers: task configurations", put_task_configs, internal=True
    ),
    Endpoint(
        "PUT",
        "/connectors/{connector}/fence",
        "Between workers: who may not write any more",
        fence,
        status=204,
        internal=True,
    ),
)
