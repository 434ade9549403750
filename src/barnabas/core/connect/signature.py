"""Signed requests between workers: making the headers, and checking them before anything else is done (KIP-507)."""

from __future__ import annotations

import base64
import hmac
from collections.abc import Collection, Mapping
from typing import Final

from barnabas.core.connect.algorithms import UnknownAlgorithmError, known, mac
from barnabas.core.connect.session_keys import SessionKey

SIGNATURE_HEADER: Final = "X-Connect-Authorization"
ALGORITHM_HEADER: Final = "X-Connect-Request-Signature-Algorithm"


class InternalRequestError(Exception):
    """A request of another worker that is refused: an HTTP status, 400, 403 or 503, and what to tell."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


def sign(body: bytes, key: SessionKey, algorithm: str) -> dict[str, str]:
    """Give the two headers that a request with exactly this body needs (C-16); UnknownAlgorithmError."""
    signature = base64.b64encode(mac(algorithm, key.key, body)).decode()
    return {SIGNATURE_HEADER: signature, ALGORITHM_HEADER: algorithm}


def verify(headers: Mapping[str, str], body: bytes, key: SessionKey | None, permitted: Collection[str]) -> None:
    """Return when a request may be trusted; InternalRequestError when not.

    headers: looked up by the names above, so case-insensitive ones where the names may be spelled otherwise. body: as
    received, not parsed yet (H-29). key: the newest one that was read, None before there is any; no older one counts
    (C-22). permitted: `inter.worker.verification.algorithms`. The comparison takes the same time whatever the
    signature (H-26). C-18 to C-22.
    """
    signature, algorithm = headers.get(SIGNATURE_HEADER), headers.get(ALGORITHM_HEADER)
    if signature is None or algorithm is None:
        raise InternalRequestError(400, "Internal request missing required signature")
    if not _is_permitted(algorithm, permitted):
        raise InternalRequestError(
            400,
            f"This worker does not accept the algorithm {algorithm!r} that another worker signed its request with. It "
            f"accepts {', '.join(permitted)}. Give all workers the same inter.worker.verification.algorithms, with "
            "every worker's inter.worker.signature.algorithm among them, and restart those that are changed",
        )
    try:
        sent = base64.b64decode(signature, validate=True)
    except ValueError:
        raise InternalRequestError(400, f"The header {SIGNATURE_HEADER} of an internal request is not base64") from None
    if key is None:
        raise InternalRequestError(503, "This worker has not read a session key from the config topic yet; try again")
    if not hmac.compare_digest(sent, mac(algorithm, key.key, body)):
        raise InternalRequestError(403, "Internal request contained invalid signature.")


def _is_permitted(algorithm: str, permitted: Collection[str]) -> bool:
    try:
        known(algorithm)
    except UnknownAlgorithmError:
        return False
    return algorithm in permitted
