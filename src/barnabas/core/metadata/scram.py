"""SCRAM credentials: their image and replay (KIP-554, KIP-900)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Final

from immutables import Map

from barnabas.core.metadata.levels import Levels
from barnabas.core.replicated import ReplayError, VersionedRecord, replays
from barnabas.wire.records.remove_user_scram_credential_record import RemoveUserScramCredentialRecord
from barnabas.wire.records.user_scram_credential_record import UserScramCredentialRecord


class ScramMechanism(IntEnum):
    """The mechanisms; the numbers are the wire's."""

    UNKNOWN = 0
    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @classmethod
    def of(cls, code: int) -> ScramMechanism:
        """Give the mechanism with this number, UNKNOWN when there is none."""
        return cls(code) if code in (1, 2) else cls.UNKNOWN

    @property
    def mechanism_name(self) -> str:
        """The name in a SASL handshake, `SCRAM-SHA-512`."""
        return self.name.replace("_", "-")


@dataclass(frozen=True, slots=True, repr=False)
class ScramCredential:
    """What the server keeps of a password; never printed."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        return "ScramCredential([hidden])"


@dataclass(frozen=True, slots=True)
class ScramImage:
    """The credentials by mechanism and user."""

    by_mechanism: Map[ScramMechanism, Map[str, ScramCredential]] = field(default_factory=Map)

    def get(self, mechanism: ScramMechanism, user: str) -> ScramCredential | None:
        """Give a user's credential, None when there is none for this mechanism."""
        users = self.by_mechanism.get(mechanism)
        return None if users is None else users.get(user)


@replays(UserScramCredentialRecord)
def set_credential(image: ScramImage, r: UserScramCredentialRecord) -> ScramImage:
    """Add or replace a credential."""
    mechanism = ScramMechanism.of(r.mechanism)
    users: Map[str, ScramCredential] = image.by_mechanism.get(mechanism, Map())
    credential = ScramCredential(bytes(r.salt), bytes(r.stored_key), bytes(r.server_key), r.iterations)
    return ScramImage(image.by_mechanism.set(mechanism, users.set(r.name, credential)))


@replays(RemoveUserScramCredentialRecord)
def remove_credential(image: ScramImage, r: RemoveUserScramCredentialRecord) -> ScramImage:
    """Remove a credential."""
    mechanism = ScramMechanism.of(r.mechanism)
    users: Map[str, ScramCredential] = image.by_mechanism.get(mechanism, Map())
    if r.name not in users:
        raise ReplayError(f"the metadata log removes a {mechanism.mechanism_name} credential that does not exist")
    users = users.delete(r.name)
    if users:
        return ScramImage(image.by_mechanism.set(mechanism, users))
    return ScramImage(image.by_mechanism.delete(mechanism))


REPLAYS: Final[tuple[Callable[..., Any], ...]] = (set_credential, remove_credential)


def snapshot_records(image: ScramImage, levels: Levels) -> Iterator[VersionedRecord]:
    """Give the records that make the image; none where metadata.version does not know them."""
    if not levels.scram:
        return
    for mechanism, users in sorted(image.by_mechanism.items()):
        for user, credential in sorted(users.items()):
            yield credential_record(mechanism, user, credential)


def credential_record(mechanism: ScramMechanism, user: str, credential: ScramCredential) -> VersionedRecord:
    """Give the record that sets a credential."""
    record = UserScramCredentialRecord(
        name=user,
        mechanism=mechanism,
        salt=credential.salt,
        stored_key=credential.stored_key,
        server_key=credential.server_key,
        iterations=credential.iterations,
    )
    return VersionedRecord(record, 0)
