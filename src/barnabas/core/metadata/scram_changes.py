"""What AlterUserScramCredentials decides (KIP-554)."""

from __future__ import annotations

from hashlib import sha256, sha512
from hmac import digest
from typing import Final

from barnabas.core.metadata.levels import Levels
from barnabas.core.metadata.scram import ScramCredential, ScramImage, ScramMechanism, credential_record
from barnabas.core.replicated import Decision, VersionedRecord
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from barnabas.wire.records.remove_user_scram_credential_record import RemoveUserScramCredentialRecord

MIN_ITERATIONS: Final = 4096
MAX_ITERATIONS: Final = 16384
_HASHES: Final = {ScramMechanism.SCRAM_SHA_256: sha256, ScramMechanism.SCRAM_SHA_512: sha512}
_TWICE: Final = "the request alters this user's credential more than once: send one change for each user"
_TOO_OLD: Final = "SCRAM credentials need metadata.version 3.5-IV2 or newer"
_Deletions = dict[str, ScramCredentialDeletion]
_Upsertions = dict[str, ScramCredentialUpsertion]
_Errors = dict[str, ApiError]


def from_salted_password(
    mechanism: ScramMechanism, salt: bytes, salted_password: bytes, iterations: int
) -> ScramCredential:
    """Give what the server keeps of a salted password (RFC 5802)."""
    hash_of = _HASHES[mechanism]
    client_key = digest(salted_password, b"Client Key", hash_of)
    server_key = digest(salted_password, b"Server Key", hash_of)
    return ScramCredential(salt, hash_of(client_key).digest(), server_key, iterations)


def alter_credentials(
    image: ScramImage, request: AlterUserScramCredentialsRequest, levels: Levels
) -> Decision[AlterUserScramCredentialsResponse]:
    """Remove and set credentials, each user once; the answer names every user."""
    errors: _Errors = {}
    deletions = _deletions(image, request, levels, errors)
    upsertions = _upsertions(request, levels, deletions, errors)
    records = [
        VersionedRecord(RemoveUserScramCredentialRecord(name=d.name, mechanism=d.mechanism), 0)
        for d in deletions.values()
    ]
    records += [_upserted(u) for u in upsertions.values()]
    results = [AlterUserScramCredentialsResult(user=name, error_message=None) for name in (*deletions, *upsertions)]
    results += [
        AlterUserScramCredentialsResult(user=name, error_code=e.code, error_message=e.message)
        for name, e in errors.items()
    ]
    return Decision(tuple(records), AlterUserScramCredentialsResponse(results=results))


def _deletions(
    image: ScramImage, request: AlterUserScramCredentialsRequest, levels: Levels, errors: _Errors
) -> _Deletions:
    deletions: _Deletions = {}
    for deletion in request.deletions:
        name = deletion.name
        if name in errors:
            continue
        if deletions.pop(name, None) is not None:
            errors[name] = ApiError(ErrorCode.DUPLICATE_RESOURCE, _TWICE)
            continue
        refusal = _refused(name, deletion.mechanism, levels)
        if refusal is None and image.get(ScramMechanism.of(deletion.mechanism), name) is None:
            refusal = ApiError(ErrorCode.RESOURCE_NOT_FOUND, "the user has no credential for this mechanism")
        if refusal is None:
            deletions[name] = deletion
        else:
            errors[name] = refusal
    return deletions


def _upsertions(
    request: AlterUserScramCredentialsRequest, levels: Levels, deletions: _Deletions, errors: _Errors
) -> _Upsertions:
    upsertions: _Upsertions = {}
    for upsertion in request.upsertions:
        name = upsertion.name
        if name in errors:
            continue
        if deletions.pop(name, None) is not None or upsertions.pop(name, None) is not None:
            errors[name] = ApiError(ErrorCode.DUPLICATE_RESOURCE, _TWICE)
            continue
        refusal = _refused(name, upsertion.mechanism, levels)
        if refusal is None and not upsertion.salted_password:
            refusal = ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "the salted password is empty")
        if refusal is None and not MIN_ITERATIONS <= upsertion.iterations <= MAX_ITERATIONS:
            refusal = ApiError(
                ErrorCode.UNACCEPTABLE_CREDENTIAL,
                f"{upsertion.iterations} iterations: want {MIN_ITERATIONS} to {MAX_ITERATIONS}",
            )
        if refusal is None:
            upsertions[name] = upsertion
        else:
            errors[name] = refusal
    return upsertions


def _upserted(upsertion: ScramCredentialUpsertion) -> VersionedRecord:
    mechanism = ScramMechanism.of(upsertion.mechanism)
    credential = from_salted_password(
        mechanism, bytes(upsertion.salt), bytes(upsertion.salted_password), upsertion.iterations
    )
    return credential_record(mechanism, upsertion.name, credential)


def _refused(name: str, mechanism: int, levels: Levels) -> ApiError | None:
    if not levels.scram:
        return ApiError(ErrorCode.UNSUPPORTED_VERSION, _TOO_OLD)
    if not name:
        return ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "a user's name cannot be empty")
    if ScramMechanism.of(mechanism) is ScramMechanism.UNKNOWN:
        return ApiError(
            ErrorCode.UNSUPPORTED_SASL_MECHANISM,
            f"SCRAM mechanism {mechanism} is unknown: want 1 (SCRAM-SHA-256) or 2 (SCRAM-SHA-512)",
        )
    return None
