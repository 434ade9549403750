"""SCRAM-SHA-256 and SCRAM-SHA-512, both halves (RFC 5802, RFC 7677), as Kafka speaks them (KIP-84).

No channel binding (`n` only) and no SASLprep: the password's UTF-8 bytes are hashed as they are, so that
credentials made by Kafka's own tools verify here. A user that does not exist is led through the whole exchange
with a made-up salt and fails where a wrong password fails: the answers do not say which users exist.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final, Protocol

from barnabas.core.sasl.exchange import AuthenticationError, Challenge, Verified, shown

TOKEN_AUTH: Final = "tokenauth"
"""The extension by which a client says that it shows a delegation token (KIP-48)."""
MIN_ITERATIONS: Final = 4096
MAX_ITERATIONS: Final = 16384
"""The most that a credential may be stored with."""
CLIENT_MAX_ITERATIONS: Final = 1_000_000
"""The most that our client works off for a server, which would otherwise hold its processor at will."""


@dataclass(frozen=True, slots=True)
class ScramAlgorithm:
    """One mechanism. code: as stored in UserScramCredentialRecord."""

    name: str
    code: int
    digest: str
    digest_bytes: int


SCRAM_SHA_256: Final = ScramAlgorithm("SCRAM-SHA-256", 1, "sha256", 32)
SCRAM_SHA_512: Final = ScramAlgorithm("SCRAM-SHA-512", 2, "sha512", 64)
ALGORITHMS: Final[Mapping[str, ScramAlgorithm]] = {a.name: a for a in (SCRAM_SHA_256, SCRAM_SHA_512)}


class StoredCredential(Protocol):
    """What a server keeps of a password."""

    @property
    def salt(self) -> bytes: ...
    @property
    def stored_key(self) -> bytes: ...
    @property
    def server_key(self) -> bytes: ...
    @property
    def iterations(self) -> int: ...


@dataclass(frozen=True, slots=True)
class ScramKeys:
    """A password, salted and hashed for storage."""

    salt: bytes
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int


@dataclass(frozen=True, slots=True)
class TokenCredential:
    """What a login by a delegation token is checked against, whom it logs in, and until when: ms since the epoch."""

    credential: StoredCredential = field(repr=False)
    owner: str
    expiry_ms: int


LookUpToken = Callable[[str], TokenCredential | None]
"""Gives what is known of a delegation token by its id; None for one that does not exist or is past its time."""
LookUp = Callable[[str], StoredCredential | None]
NewNonce = Callable[[], str]
"""Gives at least 128 bits of chance as printable ASCII without a comma."""


def salt_password(algorithm: ScramAlgorithm, password: str, salt: bytes, iterations: int) -> bytes:
    """Give the SaltedPassword of RFC 5802 (Hi); slow by intent, milliseconds for thousands of iterations."""
    return hashlib.pbkdf2_hmac(algorithm.digest, password.encode(), salt, iterations)


def derive_keys(algorithm: ScramAlgorithm, salted_password: bytes, salt: bytes, iterations: int) -> ScramKeys:
    """Give what a server stores for a salted password."""
    client_key = _hmac(algorithm, salted_password, b"Client Key")
    return ScramKeys(salt, _hash(algorithm, client_key), _hmac(algorithm, salted_password, b"Server Key"), iterations)


def decoy_keys(algorithm: ScramAlgorithm, secret: bytes, user: str) -> ScramKeys:
    """Give a credential that no password fits, always the same for the same user and secret.

    Its salt has the shape of those that Kafka's tools make, and the iterations are their default.
    """
    seed = hmac.digest(secret, f"{algorithm.name}\x00{user}".encode(), "sha512")
    number = int.from_bytes(seed[:17], "big") >> 6
    keys = hmac.digest(secret, seed, "sha512") + hmac.digest(seed, secret, "sha512")
    size = algorithm.digest_bytes
    return ScramKeys(_base36(number).encode(), keys[:size], keys[size : 2 * size], MIN_ITERATIONS)


class _State(Enum):
    FIRST = auto()
    FINAL = auto()
    DONE = auto()
    FAILED = auto()


class ScramServer:
    """One exchange, server's half: client-first -> server-first -> client-final -> server-final."""

    __slots__ = ("_algorithm", "_bare", "_credential", "_decoy_secret", "_gs2", "_known", "_look_up", "_look_up_token",
                 "_new_nonce", "_nonce", "_server_first", "_state", "_token", "_user")  # fmt: skip

    def __init__(
        self,
        algorithm: ScramAlgorithm,
        look_up: LookUp,
        new_nonce: NewNonce,
        decoy_secret: bytes,
        look_up_token: LookUpToken | None = None,
    ) -> None:
        """look_up_token: None where no delegation tokens are taken."""
        self._algorithm = algorithm
        self._look_up = look_up
        self._look_up_token = look_up_token
        self._token: TokenCredential | None = None
        self._new_nonce = new_nonce
        self._decoy_secret = decoy_secret
        self._state = _State.FIRST

    def step(self, token: bytes) -> Challenge | Verified:
        """Take the client's next message; a failed exchange cannot be taken up again."""
        state, self._state = self._state, _State.FAILED
        text = _text(token)
        if state is _State.FIRST:
            challenge = self._first(text)
            self._state = _State.FINAL
            return challenge
        if state is _State.FINAL:
            verified = self._final(text)
            self._state = _State.DONE
            return verified
        raise AuthenticationError("a token after the end of the exchange")

    def _first(self, text: str) -> Challenge:
        match = _CLIENT_FIRST.fullmatch(text)
        if match is None:
            raise AuthenticationError("malformed client-first-message")
        user = unescape_name(match["name"])
        authorization_id = unescape_name(match["authzid"] or "")
        if authorization_id and authorization_id != user:
            raise AuthenticationError(
                f"{shown(user)} asked to act as {shown(authorization_id)}",
                public="Authentication failed: the authorization id differs from the user name",
            )
        stored = self._stored(user, by_token=_is_true(parse_extensions(match["extensions"]).get(TOKEN_AUTH)))
        self._known = stored is not None
        # Made for everybody, so that the time that it takes does not say who is known.
        decoy = decoy_keys(self._algorithm, self._decoy_secret, user)
        credential = stored or decoy
        if credential.iterations < MIN_ITERATIONS:
            raise AuthenticationError(f"credential of {shown(user)} has only {credential.iterations} iterations")
        self._credential, self._user = credential, user
        self._gs2, self._bare = match["gs2"], match["bare"]
        self._nonce = self._new_nonce()
        salt = b64encode(credential.salt).decode()
        self._server_first = f"r={match['nonce']}{self._nonce},s={salt},i={credential.iterations}"
        return Challenge(self._server_first.encode())

    def _stored(self, user: str, *, by_token: bool) -> StoredCredential | None:
        if not by_token:
            return self._look_up(user)
        if self._look_up_token is None:
            raise AuthenticationError(f"delegation tokens are not accepted here (token id {shown(user)})")
        self._token = self._look_up_token(user)
        return None if self._token is None else self._token.credential

    def _final(self, text: str) -> Verified:
        match = _CLIENT_FINAL.fullmatch(text)
        if match is None:
            raise AuthenticationError("malformed client-final-message")
        # As in Kafka our own half decides: librdkafka before 2.6 sends its half twice. The proof covers what was sent.
        if not match["nonce"].endswith(self._nonce):
            raise AuthenticationError("client-final-message carries another nonce")
        if _unbase64(match["channel"]) != self._gs2.encode():
            raise AuthenticationError("channel binding differs from the header of the first message")
        credential, algorithm = self._credential, self._algorithm
        message = f"{self._bare},{self._server_first},{match['unproven']}".encode()
        signature = _hmac(algorithm, credential.stored_key, message)
        proof = _unbase64(match["proof"])
        if len(proof) != len(signature):
            raise AuthenticationError("client proof has the wrong length")
        fits = hmac.compare_digest(_hash(algorithm, _xor(proof, signature)), credential.stored_key)
        if not fits or not self._known:
            raise AuthenticationError(
                f"wrong password for {shown(self._user)}" if self._known else f"no credential for {shown(self._user)}"
            )
        server_signature = _hmac(algorithm, credential.server_key, message)
        final = b"v=" + b64encode(server_signature)
        token = self._token
        if token is None:
            return Verified(final, self._user)
        return Verified(final, token.owner, token_authenticated=True, credential_expiry_ms=token.expiry_ms)


class ScramClient:
    """One exchange, client's half; proves the server as well."""

    __slots__ = ("_algorithm", "_bare", "_nonce", "_password", "_server_signature", "_state", "_user")

    def __init__(
        self, algorithm: ScramAlgorithm, user: str, password: str, new_nonce: NewNonce, *, by_token: bool = False
    ) -> None:
        """by_token: `user` is a delegation token's id, and `password` its HMAC in base64 (KIP-48)."""
        self._algorithm = algorithm
        self._user = user
        self._password = password
        self._nonce = new_nonce()
        self._bare = f"n={escape_name(user)},r={self._nonce}" + (f",{TOKEN_AUTH}=true" if by_token else "")
        self._state = _State.FIRST
        self._server_signature = b""

    def first(self) -> bytes:
        """Give the client-first-message."""
        return f"n,,{self._bare}".encode()

    def step(self, challenge: bytes) -> bytes | None:
        """Take server-first (gives client-final) or server-final (gives None)."""
        # Whatever fails leaves FAILED behind: a refused answer is not to be followed by an accepted one.
        state, self._state = self._state, _State.FAILED
        text = _text(challenge)
        if state is _State.FIRST:
            final = self._prove(text)
            self._state = _State.FINAL
            return final
        if state is _State.FINAL:
            self._check_server(text)
            self._state = _State.DONE
            return None
        raise AuthenticationError("a token after the end of the exchange")

    @property
    def complete(self) -> bool:
        """Whether the server has proven that it knows the password's hash."""
        return self._state is _State.DONE

    def _prove(self, text: str) -> bytes:
        match = _SERVER_FIRST.fullmatch(text)
        if match is None:
            raise AuthenticationError("malformed server-first-message")
        nonce = match["nonce"]
        if not nonce.startswith(self._nonce) or len(nonce) == len(self._nonce):
            raise AuthenticationError("the server's nonce does not continue ours")
        iterations = int(match["iterations"])
        if not MIN_ITERATIONS <= iterations <= CLIENT_MAX_ITERATIONS:
            raise AuthenticationError(
                f"the server asks for {iterations} iterations; want {MIN_ITERATIONS} to {CLIENT_MAX_ITERATIONS}"
            )
        algorithm = self._algorithm
        salted = salt_password(algorithm, self._password, _unbase64(match["salt"]), iterations)
        unproven = f"c=biws,r={nonce}"
        message = f"{self._bare},{text},{unproven}".encode()
        client_key = _hmac(algorithm, salted, b"Client Key")
        proof = _xor(client_key, _hmac(algorithm, _hash(algorithm, client_key), message))
        self._server_signature = _hmac(algorithm, _hmac(algorithm, salted, b"Server Key"), message)
        return f"{unproven},p={b64encode(proof).decode()}".encode()

    def _check_server(self, text: str) -> None:
        match = _SERVER_FINAL.fullmatch(text)
        if match is None:
            raise AuthenticationError("malformed server-final-message")
        if match["error"] is not None:
            raise AuthenticationError(f"the server answered {shown(match['error'])}")
        if not hmac.compare_digest(_unbase64(match["signature"]), self._server_signature):
            raise AuthenticationError("the server does not know the password's hash")


def escape_name(name: str) -> str:
    """Give a user name as SCRAM messages carry it."""
    return name.replace("=", "=3D").replace(",", "=2C")


def unescape_name(text: str) -> str:
    """Give the user name that `text` carries; AuthenticationError for a stray `=`."""
    if _STRAY_EQUALS.search(text):
        raise AuthenticationError("user name with a bare '='")
    return text.replace("=2C", ",").replace("=3D", "=")


def parse_extensions(text: str) -> dict[str, str]:
    """Give the extensions of a client-first-message, from `,key=value,key=value` or nothing."""
    pairs = (pair.partition("=") for pair in text.split(",") if pair)
    return {key: value for key, _, value in pairs}


_NONCE: Final = r"[\x21-\x2b\x2d-\x7e]+"
_BASE64: Final = r"[A-Za-z0-9+/]*={0,2}"
_EXTENSIONS: Final = r"(?:,[A-Za-z]+=[^\x00,]+)*"
# A mandatory extension (m=) is none that we know, and RFC 5802 wants the exchange to fail then: no pattern takes one.
_CLIENT_FIRST: Final = re.compile(
    rf"(?P<gs2>n,(?:a=(?P<authzid>[^\x00,]+))?,)"
    rf"(?P<bare>n=(?P<name>[^\x00,]+),r=(?P<nonce>{_NONCE})(?P<extensions>{_EXTENSIONS}))"
)
_SERVER_FIRST: Final = re.compile(
    rf"r=(?P<nonce>{_NONCE}),s=(?P<salt>{_BASE64}),i=(?P<iterations>[0-9]{{1,10}}){_EXTENSIONS}"
)
_CLIENT_FINAL: Final = re.compile(
    rf"(?P<unproven>c=(?P<channel>{_BASE64}),r=(?P<nonce>{_NONCE}){_EXTENSIONS}),p=(?P<proof>{_BASE64})"
)
_SERVER_FINAL: Final = re.compile(rf"(?:e=(?P<error>[^\x00,]+)|v=(?P<signature>{_BASE64})){_EXTENSIONS}")
_STRAY_EQUALS: Final = re.compile(r"=(?!2C|3D)")


def _is_true(text: str | None) -> bool:
    return text is not None and text.lower() == "true"


def _text(token: bytes) -> str:
    try:
        return token.decode()
    except UnicodeDecodeError:
        raise AuthenticationError("token is not UTF-8") from None


def _unbase64(text: str) -> bytes:
    try:
        found = b64decode(text, validate=True)
    except Base64Error:
        raise AuthenticationError("malformed base64") from None
    if b64encode(found).decode() != text:  # bits behind the last byte, which nobody who encodes sets (RFC 4648, 3.5)
        raise AuthenticationError("malformed base64")
    return found


def _hmac(algorithm: ScramAlgorithm, key: bytes, message: bytes) -> bytes:
    return hmac.digest(key, message, algorithm.digest)


def _hash(algorithm: ScramAlgorithm, data: bytes) -> bytes:
    return hashlib.new(algorithm.digest, data).digest()


def _xor(a: bytes, b: bytes) -> bytes:
    return (int.from_bytes(a, "big") ^ int.from_bytes(b, "big")).to_bytes(len(a), "big")


def _base36(number: int) -> str:
    digits = ""
    while number:
        number, digit = divmod(number, 36)
        digits = "0123456789abcdefghijklmnopqrstuvwxyz"[digit] + digits
    return digits
