"""Passing a request on to the worker that can do it, the leader or the one that a connector is assigned to.

A user's request takes two hops at most: the first worker says `forward=true`, so that the next may pass it on once
more, which then says `forward=false`. Bodies go as they came, byte for byte, and so do the signature's headers of an
internal request (H-28); what the user sent to be let in goes along; nothing is signed here (C-26).
"""

from __future__ import annotations

from typing import Final

import aiohttp
import structlog
from aiohttp import hdrs, web
from yarl import URL

from barnabas.connect.herder_port import RequestTargetError
from barnabas.connect.rest.errors import RestError
from barnabas.core.connect.signature import ALGORITHM_HEADER, SIGNATURE_HEADER

log = structlog.get_logger("kafka.connect.rest.relay")

FORWARD: Final = "forward"
_ALONG: Final = (hdrs.AUTHORIZATION, hdrs.CONTENT_TYPE, SIGNATURE_HEADER, ALGORITHM_HEADER)
_BACK: Final = (hdrs.CONTENT_TYPE, hdrs.LOCATION, hdrs.RETRY_AFTER)


async def relay(session: aiohttp.ClientSession, request: web.Request, target: RequestTargetError) -> web.Response:
    """Give the answer of the worker that `target` names; RestError 409 when nobody is known or two hops were taken."""
    hops_left = request.query.get(FORWARD)
    if hops_left is not None and hops_left.lower() != "true":
        log.error("no target within two hops", method=request.method, path=request.path)
        raise RestError(409, "Cannot complete request because of a conflicting operation (e.g. worker rebalance)")
    if target.url is None:
        raise RestError(
            409,
            f"Cannot complete request momentarily due to no known {target.WHO} URL, likely because a rebalance was "
            "underway.",
            {hdrs.RETRY_AFTER: "1"},
        )
    url = _url(target.url, request, first=hops_left is None)
    headers = {name: request.headers[name] for name in _ALONG if name in request.headers}
    log.debug("passing a request on", method=request.method, url=str(url), why=str(target))
    try:
        async with session.request(
            request.method,
            url,
            data=await request.read(),
            headers=headers,
            allow_redirects=False,
            skip_auto_headers=(hdrs.CONTENT_TYPE,),  # a JVM worker takes no empty body of a type that nobody meant
        ) as answer:
            back = {name: answer.headers[name] for name in _BACK if name in answer.headers}
            return web.Response(body=await answer.read(), status=answer.status, headers=back)
    except (aiohttp.ClientError, TimeoutError, OSError) as e:
        log.error("a request could not be passed on", method=request.method, url=str(url), why=str(e))
        raise RestError(500, f"IO Error trying to forward REST request: {e}") from None


def _url(target: str, request: web.Request, *, first: bool) -> URL:
    """Give the request's URL on another worker. The path stays escaped as it came: names may hold `/` and `%`."""
    query = {**request.rel_url.query, FORWARD: "true" if first else "false"}
    path = request.rel_url.raw_path
    return URL(target.rstrip("/") + path, encoded=True).update_query(query)
