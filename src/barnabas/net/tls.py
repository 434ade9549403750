"""TLS for both sides of a connection, from Kafka's `ssl.*` keys.

Certificates are taken up without a restart: a `ServerTls` or `ClientTls` looks at its files when asked to, and
connections made from then on use what they hold. Connections that exist keep theirs.
"""

from __future__ import annotations

import os
import ssl
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Final

import structlog
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from barnabas.model.config import ConfigError
from barnabas.model.principal import ANONYMOUS, USER_TYPE, KafkaPrincipal
from barnabas.net.distinguished_name import PrincipalMapper, format_name
from barnabas.net.key_stores import (
    KeyEntry,
    StoreConfig,
    key_store_config,
    load_key,
    load_trusted,
    trust_store_config,
)

log = structlog.get_logger("kafka.net.tls")

DEFAULT_PROTOCOLS: Final = ("TLSv1.2", "TLSv1.3")
_VERSIONS: Final = {
    "TLSv1": ssl.TLSVersion.TLSv1,
    "TLSv1.1": ssl.TLSVersion.TLSv1_1,
    "TLSv1.2": ssl.TLSVersion.TLSv1_2,
    "TLSv1.3": ssl.TLSVersion.TLSv1_3,
}
_TLS13_SUITES: Final = ("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256")


class ClientAuth(Enum):
    """`ssl.client.auth`: whether a server asks its clients for a certificate."""

    NONE = ssl.CERT_NONE
    REQUESTED = ssl.CERT_OPTIONAL
    REQUIRED = ssl.CERT_REQUIRED


@dataclass(frozen=True, slots=True)
class TlsConfig:
    """What the `ssl.*` keys of one listener, or of a client, say."""

    key_store: StoreConfig
    trust_store: StoreConfig
    client_auth: ClientAuth
    protocols: tuple[str, ...]
    cipher_suites: tuple[str, ...]
    identify_server: bool

    @classmethod
    def parse(cls, config: Mapping[str, object]) -> TlsConfig:
        """Give the settings; keys that are not `ssl.*` are ignored, missing ones have Kafka's defaults.

        Values: text, `Password`, or lists where Kafka has lists. ConfigError names what is wrong. For a listener
        the caller has laid the keys prefixed with `listener.name.<name>.` over the plain ones.
        """
        auth = str(config.get("ssl.client.auth") or "none").upper()
        if auth not in ClientAuth.__members__:
            raise ConfigError(f"ssl.client.auth={auth.lower()}: want none, requested or required")
        identification = config.get("ssl.endpoint.identification.algorithm", "https")
        if identification not in (None, "", "https", "HTTPS"):
            raise ConfigError(f"ssl.endpoint.identification.algorithm={identification}: want https, or empty for none")
        return cls(
            key_store=key_store_config(config),
            trust_store=trust_store_config(config),
            client_auth=ClientAuth[auth],
            protocols=_list(config, "ssl.enabled.protocols") or DEFAULT_PROTOCOLS,
            cipher_suites=_list(config, "ssl.cipher.suites"),
            identify_server=bool(identification),
        )

    @property
    def files(self) -> tuple[str, ...]:
        """The files that certificates and keys come from."""
        return tuple(store.path for store in (self.key_store, self.trust_store) if store.path is not None)


class _Renewing(ABC):
    """A context that is made anew when its files have changed."""

    def __init__(self, config: TlsConfig) -> None:
        self.config = config
        self._seen = _stamps(config.files)
        self._current = self._build()

    @abstractmethod
    def _build(self) -> ssl.SSLContext:
        """Make a context of what the files hold now."""

    def reload_if_changed(self) -> bool:
        """Take up changed files; True when new connections will use them.

        Files that cannot be used (a renewal half done) leave everything as it was, with a log line, and are
        looked at again when they change next.
        """
        stamps = _stamps(self.config.files)
        if stamps == self._seen:
            return False
        self._seen = stamps
        try:
            self._current = self._build()
        except ConfigError as e:
            log.error("renewed certificates cannot be used, the old ones stay", error=str(e))
            return False
        log.info("renewed certificates taken up", files=list(self.config.files))
        return True


class ServerTls(_Renewing):
    """TLS of one listener. `context` stays the same object for the listener's life."""

    def __init__(self, config: TlsConfig) -> None:
        if not config.key_store.given:
            raise ConfigError("a TLS listener needs ssl.keystore.location, or ssl.keystore.key with its chain")
        super().__init__(config)
        self.context = self._current
        # Every handshake is handed on to the context of the moment, so that a listener can keep one object.
        self.context.sni_callback = self._hand_on

    def _build(self) -> ssl.SSLContext:
        config = self.config
        context = _context(ssl.PROTOCOL_TLS_SERVER, config)
        _use_key(context, load_key(config.key_store), config.key_store)
        context.verify_mode = ssl.VerifyMode(config.client_auth.value)
        if config.client_auth is not ClientAuth.NONE:
            _trust(context, config.trust_store, ssl.Purpose.CLIENT_AUTH)
            # A resumed session would keep the client's name though its certificate is trusted no more.
            context.options |= ssl.OP_NO_TICKET
            context.num_tickets = 0
        return context

    def _hand_on(self, connection: ssl.SSLObject, server_name: str | None, context: ssl.SSLContext) -> None:
        connection.context = self._current


class ClientTls(_Renewing):
    """TLS of a client. Read `context` for each connection: it changes when files do."""

    @property
    def context(self) -> ssl.SSLContext:
        """The context for a connection made now."""
        return self._current

    def _build(self) -> ssl.SSLContext:
        config = self.config
        context = _context(ssl.PROTOCOL_TLS_CLIENT, config)
        context.check_hostname = config.identify_server
        _trust(context, config.trust_store, ssl.Purpose.SERVER_AUTH)
        if config.key_store.given:
            _use_key(context, load_key(config.key_store), config.key_store)
        return context


def peer_principal(connection: ssl.SSLObject | ssl.SSLSocket, mapper: PrincipalMapper) -> KafkaPrincipal:
    """Give who is at the other end of a finished handshake; ANONYMOUS when it showed no certificate.

    PrincipalMappingError when no rule applies to the name of the certificate: the connection is to be closed.
    """
    der = connection.getpeercert(binary_form=True)
    if not der:
        return ANONYMOUS
    return KafkaPrincipal(
        USER_TYPE, mapper.map(format_name(x509.load_der_x509_certificate(der).subject.public_bytes()))
    )


def openssl_suite(name: str) -> str:
    """Give OpenSSL's name for a TLS 1.2 suite that `name` calls as IANA and Java do; others are given back as is."""
    exchange, with_, rest = name.removeprefix("TLS_").partition("_WITH_")
    if not with_:
        return name
    cipher = rest.replace("CHACHA20_POLY1305_SHA256", "CHACHA20_POLY1305").replace("AES_128", "AES128")
    cipher = cipher.replace("AES_256", "AES256").replace("_CBC", "").replace("_", "-")
    parts = [] if exchange == "RSA" else [exchange.replace("_", "-")]
    return "-".join([*parts, cipher])


def _context(protocol: int, config: TlsConfig) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    # Java trusts a certificate in a trust store for itself, whether or not it is a root.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
    protocols = _within_suites(config)
    context.minimum_version = _VERSIONS[protocols[0]]
    context.maximum_version = _VERSIONS[protocols[-1]]
    older = [openssl_suite(name) for name in config.cipher_suites if name not in _TLS13_SUITES]
    if older:
        try:
            context.set_ciphers(":".join(older))
        except ssl.SSLError:
            raise ConfigError(f"ssl.cipher.suites={','.join(config.cipher_suites)}: none is known here") from None
    return context


def _within_suites(config: TlsConfig) -> list[str]:
    unknown = [name for name in config.protocols if name not in _VERSIONS]
    if unknown:
        raise ConfigError(f"ssl.enabled.protocols={','.join(unknown)}: want some of {', '.join(_VERSIONS)}")
    order = list(_VERSIONS)
    protocols = sorted(set(config.protocols), key=order.index)
    if order.index(protocols[-1]) - order.index(protocols[0]) + 1 != len(protocols):
        raise ConfigError(f"ssl.enabled.protocols={','.join(config.protocols)}: want versions without a gap")
    if not config.cipher_suites:
        return protocols
    newer = [name for name in config.cipher_suites if name in _TLS13_SUITES]
    if newer and len(newer) < len(_TLS13_SUITES):
        log.warning("OpenSSL cannot be told which suites of TLS 1.3 to use, all of its three stay", wanted=newer)
    wanted = [name for name in protocols if (newer if name == "TLSv1.3" else len(newer) < len(config.cipher_suites))]
    if not wanted:
        raise ConfigError(
            f"ssl.cipher.suites={','.join(config.cipher_suites)}: none is for {', '.join(config.protocols)}"
        )
    return wanted


def _trust(context: ssl.SSLContext, store: StoreConfig, purpose: ssl.Purpose) -> None:
    if not store.given:
        context.load_default_certs(purpose)
        return
    trusted = load_trusted(store)
    context.load_verify_locations(cadata=b"".join(certificate.public_bytes(Encoding.DER) for certificate in trusted))


def _use_key(context: ssl.SSLContext, entry: KeyEntry, store: StoreConfig) -> None:
    try:
        with _private_file(entry.key_pem + entry.chain_pem) as path:
            context.load_cert_chain(path)
    except ssl.SSLError as e:
        raise ConfigError(f"ssl.keystore.* ({store.type}): OpenSSL refuses the key or its chain: {e.reason}") from None


@contextmanager
def _private_file(content: bytes) -> Iterator[str]:
    # ssl reads keys from files only; where the system has files without a name, none touches a disk.
    if hasattr(os, "memfd_create"):
        with os.fdopen(os.memfd_create("barnabas-key", os.MFD_CLOEXEC), "wb") as file:
            file.write(content)
            file.flush()
            yield f"/proc/self/fd/{file.fileno()}"
        return
    with NamedTemporaryFile() as file:  # mode 0600
        file.write(content)
        file.flush()
        yield file.name


def _stamps(files: Sequence[str]) -> tuple[tuple[int, int, int] | None, ...]:
    return tuple(map(_stamp, files))


def _stamp(file: str) -> tuple[int, int, int] | None:
    try:
        status = Path(file).stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def _list(config: Mapping[str, object], key: str) -> tuple[str, ...]:
    value = config.get(key) or ()
    if isinstance(value, str):
        value = value.split(",")
    if not isinstance(value, Sequence):
        raise ConfigError(f"{key}: want a list, not {type(value).__name__}")
    return tuple(text for item in value if (text := str(item).strip()))
