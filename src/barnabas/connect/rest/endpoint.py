"""One row of the REST API: a method, a path, what it does. The OpenAPI page is made from the same rows."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

from aiohttp import hdrs, web

from barnabas.connect.herder_port import Herder
from barnabas.connect.rest.errors import RestError, UnreadableError

JSON: Final = "application/json"
_OCTETS: Final = "application/octet-stream"
Answer = Callable[[Herder, web.Request], Awaitable[web.Response]]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """What a method on a path does.

    query: names of what may follow the `?`, with a description each. body: an example of the JSON that it takes, None
    for none. admin: served on `admin.listeners` where those are set apart. internal: between workers, not on the page.
    """

    method: str
    path: str
    summary: str
    answer: Answer
    query: tuple[tuple[str, str], ...] = ()
    body: object = None
    status: int = 200
    admin: bool = False
    internal: bool = False


def answered(value: object, *, status: int = 200, location: str | None = None) -> web.Response:
    """Give JSON."""
    headers = {} if location is None else {"Location": location}
    return web.Response(text=json.dumps(value, ensure_ascii=False), status=status, content_type=JSON, headers=headers)


def done(status: int = 204) -> web.Response:
    """Give an answer without a body."""
    return web.Response(status=status)


def check_types(request: web.Request) -> None:
    """Refuse requests that say that they bring no JSON (415), or take none for an answer (406)."""
    given = request.headers.get(hdrs.CONTENT_TYPE)
    # Some clients say of no body at all that it is octets; a JVM worker refuses them.
    octets = request.content_type == _OCTETS and not request.can_read_body
    if given is not None and request.content_type != JSON and not octets:
        raise RestError(415, f"The body is {given}; this takes {JSON}")
    accepted = ",".join(request.headers.getall(hdrs.ACCEPT, []))
    kinds = {each.partition(";")[0].strip().lower() for each in accepted.split(",")}
    if accepted.strip() and kinds.isdisjoint((JSON, "application/*", "*/*")):
        raise RestError(406, f"This gives {JSON}, and the client takes {accepted} alone")


async def json_body(request: web.Request) -> Any:
    """Give the body, parsed; UnreadableError when it is not JSON."""
    return parsed(await request.read())


def parsed(body: bytes) -> Any:
    """Give the JSON of a body, None for an empty one; UnreadableError when it is none."""
    if not body:
        return None
    try:
        return json.loads(body)
    except ValueError as e:
        raise UnreadableError(f"The body is not JSON: {e}") from None


def flag(request: web.Request, name: str, *, default: bool) -> bool:
    """Give a boolean of the query: `true` in any case means yes, nothing the default, anything else no."""
    value = request.query.get(name)
    return value.lower() == "true" if value else default
