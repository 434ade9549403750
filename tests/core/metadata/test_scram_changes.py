"""AlterUserScramCredentials: one change a user, iterations within bounds, keys as RFC 5802 makes them."""

from __future__ import annotations

from base64 import b64decode
from hashlib import pbkdf2_hmac

import pytest

from barnabas.core.metadata.image import MetadataImage
from barnabas.core.metadata.levels import Levels
from barnabas.core.metadata.runs import replay
from barnabas.core.metadata.scram import ScramImage, ScramMechanism
from barnabas.core.metadata.scram_changes import alter_credentials, from_salted_password
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)

E = ErrorCode
LEVELS = Levels(30)


def put(name: str = "alice", mechanism: int = 1, iterations: int = 4096) -> ScramCredentialUpsertion:
    return ScramCredentialUpsertion(
        name=name, mechanism=mechanism, iterations=iterations, salt=b"s", salted_password=b"p"
    )


def drop(name: str = "alice", mechanism: int = 1) -> ScramCredentialDeletion:
    return ScramCredentialDeletion(name=name, mechanism=mechanism)


def altered(
    image: ScramImage,
    *changes: ScramCredentialUpsertion | ScramCredentialDeletion,
    levels: Levels = LEVELS,
) -> tuple[ScramImage, dict[str, ErrorCode]]:
    request = AlterUserScramCredentialsRequest(
        deletions=[c for c in changes if isinstance(c, ScramCredentialDeletion)],
        upsertions=[c for c in changes if isinstance(c, ScramCredentialUpsertion)],
    )
    decision = alter_credentials(image, request, levels)
    for result in decision.response.results:
        assert (result.error_message is None) == (result.error_code == 0)
    after = replay(MetadataImage(scram=image), decision.records).scram
    return after, {r.user: ErrorCode(r.error_code) for r in decision.response.results}


def test_the_keys_are_those_of_rfc_7677() -> None:
    """The example of RFC 7677: user `user`, password `pencil`, 4096 iterations."""
    salt = b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    salted = pbkdf2_hmac("sha256", b"pencil", salt, 4096)
    credential = from_salted_password(ScramMechanism.SCRAM_SHA_256, salt, salted, 4096)
    assert credential.stored_key == b64decode("WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=")
    assert credential.server_key == b64decode("wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=")


def test_users_are_set_and_removed() -> None:
    image, codes = altered(ScramImage(), put(), put("bob", 2))
    assert codes == {"alice": E.NONE, "bob": E.NONE}
    assert image.get(ScramMechanism.SCRAM_SHA_512, "bob") is not None
    image, codes = altered(image, drop(), put("carol"))
    assert codes == {"alice": E.NONE, "carol": E.NONE}
    assert image.get(ScramMechanism.SCRAM_SHA_256, "alice") is None


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (put(""), E.UNACCEPTABLE_CREDENTIAL),
        (put(iterations=4095), E.UNACCEPTABLE_CREDENTIAL),
        (put(iterations=16385), E.UNACCEPTABLE_CREDENTIAL),
        (put(mechanism=0), E.UNSUPPORTED_SASL_MECHANISM),
        (put(mechanism=3), E.UNSUPPORTED_SASL_MECHANISM),
        (drop(mechanism=9), E.UNSUPPORTED_SASL_MECHANISM),
        (drop(), E.RESOURCE_NOT_FOUND),
        (drop(""), E.UNACCEPTABLE_CREDENTIAL),
    ],
)
def test_what_is_wrong_has_kafkas_code(
    change: ScramCredentialUpsertion | ScramCredentialDeletion, code: ErrorCode
) -> None:
    image, codes = altered(ScramImage(), change, put("bob"))
    assert codes == {change.name: code, "bob": E.NONE}
    assert image.get(ScramMechanism.SCRAM_SHA_256, "alice") is None


def test_a_user_is_changed_once_in_a_request() -> None:
    image, _ = altered(ScramImage(), put())
    for changes in ((put(), put(mechanism=2)), (drop(), put()), (drop(), drop())):
        after, codes = altered(image, *changes)
        assert codes == {"alice": E.DUPLICATE_RESOURCE}
        assert after == image


def test_old_levels_have_no_users() -> None:
    for change in (put(), drop()):
        _, codes = altered(ScramImage(), change, levels=Levels(10))
        assert codes == {"alice": E.UNSUPPORTED_VERSION}


def test_credentials_are_never_printed() -> None:
    image, _ = altered(ScramImage(), put())
    assert "hidden" in repr(image)
    assert "stored_key" not in repr(image)
