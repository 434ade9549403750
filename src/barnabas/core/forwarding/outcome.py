"""What a controller's answer to a forwarded request means, and whether an answer says that it came to the wrong node.

Table of the top-level errors of an Envelope (KIP-590):

| error | the broker |
|---|---|
| NONE | relays what is inside |
| NOT_CONTROLLER | finds the controller and sends again |
| AUTHORIZER_NOT_READY | sends again a little later; the controller loads its rules (KIP-801) |
| UNSUPPORTED_VERSION | closes the client's connection, so that it learns the ranges of this controller |
| any other | answers UNKNOWN_SERVER_ERROR for every element, and logs the cause |
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum, auto
from typing import Final

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.declaration import Struct, field_specs
from barnabas.wire.errors import ErrorCode

ANSWERED_BY_THE_LEADER: Final = frozenset({ApiKey.DESCRIBE_QUORUM, ApiKey.ADD_RAFT_VOTER, ApiKey.REMOVE_RAFT_VOTER})
"""APIs of the quorum: they say NOT_LEADER_OR_FOLLOWER where others say NOT_CONTROLLER."""


class Verdict(Enum):
    """What is to be done about an answer."""

    RELAY = auto()
    SEND_AGAIN = auto()
    CLOSE_CLIENT = auto()
    FAIL = auto()


def verdict_on(error_code: int) -> Verdict:
    """Give what a top-level error of an Envelope asks for."""
    if error_code == ErrorCode.NONE:
        return Verdict.RELAY
    if error_code in (ErrorCode.NOT_CONTROLLER, ErrorCode.AUTHORIZER_NOT_READY):
        return Verdict.SEND_AGAIN
    if error_code == ErrorCode.UNSUPPORTED_VERSION:
        return Verdict.CLOSE_CLIENT
    return Verdict.FAIL


def from_wrong_node(key: ApiKey, response: Struct) -> bool:
    """Say whether a response holds, anywhere, the error by which a node says that another one should be asked."""
    wrong = ErrorCode.NOT_LEADER_OR_FOLLOWER if key in ANSWERED_BY_THE_LEADER else ErrorCode.NOT_CONTROLLER
    return any(code in (wrong, ErrorCode.NOT_CONTROLLER) for code in error_codes(response))


def error_codes(response: Struct) -> Iterator[int]:
    """Give every error code in a response, however deep."""
    for spec in field_specs(type(response)):
        value = getattr(response, spec.name)
        if spec.name.endswith("error_code"):
            yield value
        elif spec.struct is not None:
            for element in value if isinstance(value, list) else () if value is None else (value,):
                yield from error_codes(element)


_REMEDIES: Final[dict[int, str]] = {
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "give this broker's principal CLUSTER_ACTION on the cluster, "
    "or make it one of super.users on the controllers",
    ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE: "use the same principal.builder.class on brokers and controllers",
    ErrorCode.INVALID_REQUEST: "see whether brokers and controllers run releases that fit together",
    ErrorCode.UNSUPPORTED_VERSION: "upgrade the controllers, or wait for the client to learn their versions",
}


def remedy(error_code: int) -> str:
    """Give what an operator can do about an error of an Envelope."""
    return _REMEDIES.get(error_code, "see the controller's log of the same time")
