"""Changes of configs on their way through a broker: what it does itself, and what it sends on (KIP-590, KIP-412).

The levels of loggers are set by the node they belong to; changes of a broker's own configs are checked by that broker,
which alone knows its settings, and kept by the controller. Everything else goes on, untouched when there is nothing
but that; the answers are merged in the order of the request (KAFKA-13552, KAFKA-16539).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from barnabas.core.metadata.config_changes import alter_configs, incremental_alter_configs
from barnabas.core.metadata.configs import ConfigResourceType
from barnabas.server.alter_config_requests import incremental_changes, malformed, named_elsewhere, resource_of
from barnabas.server.config_schema import NodeConfigSchema
from barnabas.server.logger_changes import alter_loggers
from barnabas.server.router import Answer, Forwarded
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.declaration import field_specs
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.header import RequestHeader, decode_request_header, decode_response_header, encode_request_header
from barnabas.wire.message import decode, decode_from, encode_into
from barnabas.wire.messages.alter_configs import AlterConfigsRequest
from barnabas.wire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from barnabas.wire.primitives import Records

if TYPE_CHECKING:
    from barnabas.server.context import RequestContext

CONFIG_APIS: Final = frozenset({ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS})
Send = Callable[["RequestContext", memoryview], Awaitable[Answer]]


async def forward_config_changes(ctx: RequestContext, frame: memoryview, send: Send) -> Answer:
    """Do what is this broker's part and `send` the rest; gives the merged answer."""
    header, body_at, _ = decode_request_header(frame)
    request: Any = decode_from(ctx.row.request, ctx.version, frame, body_at)[0]
    done = _own_part(request, ctx)
    if not done:
        return await send(ctx, frame)
    rest = [resource for place, resource in enumerate(request.resources) if place not in done]
    response: Any = ctx.row.response()
    if rest:
        answer = await send(ctx, memoryview(_encoded(header, replace(request, resources=rest))))
        response = _decoded(ctx, answer)
    theirs = iter(response.responses)
    result = _result_class(response)
    response.responses = [
        _result(result, resource, done[place]) if place in done else next(theirs)
        for place, resource in enumerate(request.resources)
    ]
    return response


def _own_part(request: Any, ctx: RequestContext) -> Mapping[int, ApiError | None]:
    """Give, by place in the request, what is finished here: why not, or None for done."""
    done: dict[int, ApiError | None] = {}
    times = Counter((r.resource_type, r.resource_name) for r in request.resources)
    for place, asked in enumerate(request.resources):
        error = malformed(asked, times[asked.resource_type, asked.resource_name])
        kind = ConfigResourceType.of(asked.resource_type)
        if error is not None:
            done[place] = error
        elif kind is ConfigResourceType.BROKER_LOGGER:
            done[place] = _loggers(request, asked, ctx)
        elif kind is ConfigResourceType.BROKER:
            error = named_elsewhere(asked, ctx) or _unfit(request, asked, ctx)
            if error is not None:
                done[place] = error
    return done


def _loggers(request: Any, asked: Any, ctx: RequestContext) -> ApiError | None:
    if not isinstance(request, IncrementalAlterConfigsRequest):
        return ApiError(
            ErrorCode.INVALID_REQUEST, "this API cannot set the levels of loggers: use IncrementalAlterConfigs"
        )
    return alter_loggers(asked, ctx, validate_only=request.validate_only)


def _unfit(request: Any, asked: Any, ctx: RequestContext) -> ApiError | None:
    """Give why this broker could not run with the change; the decision is made as the controller makes it."""
    resource, schema = resource_of(asked), NodeConfigSchema(ctx.node.static_config)
    try:
        if isinstance(request, AlterConfigsRequest):
            wanted = {resource: {config.name: config.value for config in asked.configs}}
            return alter_configs(ctx.node.image(), wanted, schema, validate_only=True).response[resource]
        changes = {resource: incremental_changes(asked)}
        return incremental_alter_configs(ctx.node.image(), changes, schema, validate_only=True).response[resource]
    except ApiError as e:
        return e


def _encoded(header: RequestHeader, request: Any) -> bytes:
    parts: list[Records] = []
    encode_request_header(header, parts)
    encode_into(request, header.request_api_version, parts)
    return b"".join(part for part in parts if isinstance(part, bytes | bytearray | memoryview))


def _decoded(ctx: RequestContext, answer: Answer) -> Any:
    if not isinstance(answer, Forwarded):
        return answer
    _, body_at = decode_response_header(int(ctx.row.key), ctx.version, answer.frame)
    return decode(ctx.row.response, ctx.version, answer.frame, body_at)


def _result_class(response: Any) -> Any:
    return next(spec.struct for spec in field_specs(type(response)) if spec.name == "responses")


def _result(result: Any, asked: Any, error: ApiError | None) -> Any:
    return result(
        error_code=ErrorCode.NONE if error is None else error.code,
        error_message=None if error is None else error.message,
        resource_type=asked.resource_type,
        resource_name=asked.resource_name,
    )
