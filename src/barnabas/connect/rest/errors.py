"""From a herder's refusal to an HTTP answer, once for all resources: `{"error_code": ..., "message": ...}`."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from datetime import UTC, datetime

from aiohttp import web

from barnabas.connect.herder_port import (
    AlreadyExistsError,
    BadRequestError,
    ConflictError,
    HerderError,
    NotFoundError,
    RebalanceNeededError,
)
from barnabas.core.connect.signature import InternalRequestError


class RestError(Exception):
    """An answer other than success. headers: besides the usual ones."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.headers = dict(headers or {})


class UnreadableError(RestError):
    """A body that is no JSON, or of another shape. 500, as every JVM worker answers it, and clients know it."""

    def __init__(self, message: str) -> None:
        super().__init__(500, message)


def error_response(error: RestError) -> web.Response:
    """Give the answer that tells an error."""
    body = json.dumps({"error_code": error.status, "message": error.message})
    return web.Response(text=body, status=error.status, content_type="application/json", headers=error.headers)


def as_rest_error(error: Exception) -> RestError:
    """Give the status and the words for what a resource raised."""
    match error:
        case RestError():
            return error
        case InternalRequestError(status=status, message=message):
            return RestError(status, message)
        case NotFoundError():
            return RestError(404, str(error))
        case AlreadyExistsError() | ConflictError():
            return RestError(409, str(error))
        case BadRequestError():
            return RestError(400, str(error))
        case RebalanceNeededError():
            return _rebalancing(error)
        case HerderError():
            return RestError(500, str(error))
        case web.HTTPException():
            return RestError(error.status, _said(error), _kept(error))
        case _:
            return RestError(500, str(error) or type(error).__name__)


def _rebalancing(error: RebalanceNeededError) -> RestError:
    since = datetime.fromtimestamp(error.since_ms / 1000, UTC).isoformat(timespec="milliseconds")
    wait_s = max(1, math.ceil(error.retry_after_ms / 1000))
    return RestError(
        409,
        f"{error}. The group has been rebalancing since {since}; try again in {wait_s} s",
        {"Retry-After": str(wait_s)},
    )


def _said(error: web.HTTPException) -> str:
    return f"HTTP {error.status} {error.reason}"


def _kept(error: web.HTTPException) -> dict[str, str]:
    return {name: error.headers[name] for name in ("Allow",) if name in error.headers}
