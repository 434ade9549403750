"""Admin: SCRAM credentials, and the quotas of users, clients and addresses."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from barnabas.client.admin.outcome import ClusterAdmin, check, refusal
from barnabas.core.sasl.mechanisms.scram import ALGORITHMS, MIN_ITERATIONS, salt_password
from barnabas.model.config import Password
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    OpData,
    RequestEntryData,
)
from barnabas.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from barnabas.wire.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from barnabas.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    UserName,
)

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"
_NAMES: Final = {a.code: a.name for a in ALGORITHMS.values()}


class ScramInfo(NamedTuple):
    """A credential that a user has."""

    mechanism: str
    iterations: int


@dataclass(frozen=True, slots=True)
class ScramUpsertion:
    """A credential to set. Only its salted form leaves this process."""

    user: str
    mechanism: str
    password: Password
    iterations: int = MIN_ITERATIONS
    salt: bytes | None = field(default=None, repr=False)


class ScramDeletion(NamedTuple):
    """A credential to remove."""

    user: str
    mechanism: str


class EntityMatch(NamedTuple):
    """Which quota entities are meant. name: exactly this one; None: the default; ANY_NAME: whichever."""

    type: str
    name: str | None


ANY_NAME: Final = "\x00any"
"""In an EntityMatch: every name, the default included."""
QuotaEntity = tuple[tuple[str, str | None], ...]
"""What a quota is for, as sorted (type, name) pairs; a name of None is the default of the type."""


class UsersAdmin(ClusterAdmin):
    """Operations on users and quotas."""

    async def describe_scram(self, users: Sequence[str] | None = None) -> dict[str, list[ScramInfo] | ApiError]:
        """Give the SCRAM credentials of these users, of all when None; without a password in any form."""
        response: DescribeUserScramCredentialsResponse = await self.cluster.call_any(
            DescribeUserScramCredentialsRequest(users=None if users is None else [UserName(name=u) for u in users])
        )
        check(response.error_code, response.error_message)
        return {
            r.user: refusal(r.error_code, r.error_message)
            or [ScramInfo(_NAMES.get(i.mechanism, "UNKNOWN"), i.iterations) for i in r.credential_infos]
            for r in response.results
        }

    async def alter_scram(
        self, upsertions: Sequence[ScramUpsertion] = (), deletions: Sequence[ScramDeletion] = ()
    ) -> dict[str, ApiError | None]:
        """Set and remove SCRAM credentials; give how each user went.

        Nodes take one change a user in a request, so a user with more of them takes more requests.
        """
        results: dict[str, ApiError | None] = {}
        left: list[ScramUpsertion | ScramDeletion] = [*deletions, *upsertions]
        while left:
            now = {change.user: change for change in reversed(left)}
            left = [change for change in left if now[change.user] is not change]
            response: AlterUserScramCredentialsResponse = await self.cluster.call_any(
                AlterUserScramCredentialsRequest(
                    deletions=[
                        ScramCredentialDeletion(name=d.user, mechanism=_code(d.mechanism))
                        for d in now.values()
                        if isinstance(d, ScramDeletion)
                    ],
                    upsertions=[_upsertion(u) for u in now.values() if isinstance(u, ScramUpsertion)],
                )
            )
            for r in response.results:
                results[r.user] = results.get(r.user) or refusal(r.error_code, r.error_message)
        return results

    async def describe_quotas(
        self, matches: Sequence[EntityMatch] = (), *, strict: bool = False
    ) -> dict[QuotaEntity, dict[str, float]]:
        """Give quotas by entity. strict: entities of exactly these types, none more."""
        response: DescribeClientQuotasResponse = await self.cluster.call_any(
            DescribeClientQuotasRequest(components=[_component(m) for m in matches], strict=strict)
        )
        check(response.error_code, response.error_message)
        return {
            tuple(sorted(((e.entity_type, e.entity_name) for e in entry.entity), key=lambda e: e[0])): {
                v.key: v.value for v in entry.values
            }
            for entry in response.entries or ()
        }

    async def alter_quotas(
        self, entity: Mapping[str, str | None], changes: Mapping[str, float | None], *, validate_only: bool = False
    ) -> None:
        """Set the quotas of one entity; a value of None removes one. ApiError when refused."""
        request = AlterClientQuotasRequest(
            entries=[
                RequestEntryData(
                    entity=[EntityData(entity_type=t, entity_name=n) for t, n in entity.items()],
                    ops=[OpData(key=k, value=0.0 if v is None else v, remove=v is None) for k, v in changes.items()],
                )
            ],
            validate_only=validate_only,
        )
        response: AlterClientQuotasResponse = await self.cluster.call_any(request)
        for entry in response.entries:
            check(entry.error_code, entry.error_message)


def _code(mechanism: str) -> int:
    algorithm = ALGORITHMS.get(mechanism)
    if algorithm is None:
        raise ApiError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, f"{mechanism!r} is none of {', '.join(ALGORITHMS)}")
    return algorithm.code


def _upsertion(wanted: ScramUpsertion) -> ScramCredentialUpsertion:
    code = _code(wanted.mechanism)
    salt = secrets.token_bytes(24) if wanted.salt is None else wanted.salt
    salted = salt_password(ALGORITHMS[wanted.mechanism], wanted.password.secret, salt, wanted.iterations)
    return ScramCredentialUpsertion(
        name=wanted.user, mechanism=code, iterations=wanted.iterations, salt=salt, salted_password=salted
    )


def _component(match: EntityMatch) -> ComponentData:
    if match.name == ANY_NAME:
        return ComponentData(entity_type=match.type, match_type=2, match=None)
    return ComponentData(entity_type=match.type, match_type=1 if match.name is None else 0, match=match.name)
