"""DescribeUserScramCredentials v0. KIP-554."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from barnabas.core.metadata.scram import ScramImage, ScramMechanism
from barnabas.model.acl import AclOperation
from barnabas.server.router import handles, on_cluster
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)

if TYPE_CHECKING:
    from barnabas.server.context import RequestContext

_MECHANISMS: Final = (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512)


@handles(DescribeUserScramCredentialsRequest, authz=on_cluster(AclOperation.DESCRIBE))
def describe_user_scram_credentials(
    request: DescribeUserScramCredentialsRequest, ctx: RequestContext
) -> DescribeUserScramCredentialsResponse:
    """Say which mechanisms users have credentials for; all users when none is named."""
    scram = ctx.node.image().scram
    if request.users:
        asked = Counter(user.name for user in request.users)
    else:
        asked = Counter({user for users in scram.by_mechanism.values() for user in users})
    results = [_described(user, times, scram) for user, times in sorted(asked.items())]
    return DescribeUserScramCredentialsResponse(error_message=None, results=results)


def _described(user: str, times: int, scram: ScramImage) -> DescribeUserScramCredentialsResult:
    result = DescribeUserScramCredentialsResult(user=user, error_message=None)
    if times > 1:
        result.error_code = ErrorCode.DUPLICATE_RESOURCE
        result.error_message = f"the request names user {user!r} more than once"
        return result
    for mechanism in _MECHANISMS:
        credential = scram.get(mechanism, user)
        if credential is not None:
            result.credential_infos.append(CredentialInfo(mechanism=mechanism, iterations=credential.iterations))
    if not result.credential_infos:
        result.error_code = ErrorCode.RESOURCE_NOT_FOUND
        result.error_message = f"user {user!r} has no SCRAM credential"
    return result
