"""What a client is told: Kafka's keys in Java's spelling, with librdkafka's understood as well.

Values may be `${file:PATH:key}` (a key of a properties file), `${dir:PATH:name}` (a file of a folder, whole) or
`${env:NAME}`; they are read when a connection is made, on the machine that makes it, so that a configuration can travel
without its secrets.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final, NamedTuple

from barnabas.client.config_keys import CLIENT_KEYS as CLIENT_KEYS
from barnabas.core.sasl.jaas import JaasError, LoginModule, parse_jaas
from barnabas.core.sasl.mechanisms import gssapi, oauthbearer
from barnabas.model.config import MASKED, ConfigError, Password, parse_properties

_LIBRDKAFKA: Final[Mapping[str, str]] = {
    "metadata.broker.list": "bootstrap.servers",
    "sasl.mechanisms": "sasl.mechanism",
    "sasl.oauthbearer.client.id": "sasl.oauthbearer.client.credentials.client.id",
    "sasl.oauthbearer.client.secret": "sasl.oauthbearer.client.credentials.client.secret",
    "compression.codec": "compression.type",
    "request.required.acks": "acks",
    "queue.buffering.max.ms": "linger.ms",
    "message.timeout.ms": "delivery.timeout.ms",
    "message.send.max.retries": "retries",
    "message.max.bytes": "max.request.size",
    "max.in.flight": "max.in.flight.requests.per.connection",
    "fetch.wait.max.ms": "fetch.max.wait.ms",
    "fetch.message.max.bytes": "max.partition.fetch.bytes",
    "socket.send.buffer.bytes": "send.buffer.bytes",
    "socket.receive.buffer.bytes": "receive.buffer.bytes",
    "ssl.key.pem": "ssl.keystore.key",
    "ssl.certificate.pem": "ssl.keystore.certificate.chain",
    "ssl.ca.pem": "ssl.truststore.certificates",
    "enable.ssl.certificate.verification": "enable.ssl.certificate.verification",
}
_LIBRDKAFKA_FILES: Final = ("ssl.ca.location", "ssl.certificate.location", "ssl.key.location")
_VALUES: Final[Mapping[tuple[str, str], str]] = {
    ("ssl.endpoint.identification.algorithm", "none"): "",
    ("auto.offset.reset", "smallest"): "earliest",
    ("auto.offset.reset", "beginning"): "earliest",
    ("auto.offset.reset", "largest"): "latest",
    ("auto.offset.reset", "end"): "latest",
    ("auto.offset.reset", "error"): "none",
}
_REFERENCE: Final = re.compile(r"\$\{(file|dir|env):([^}]*)\}")
_SECRET: Final = re.compile(r"password|secret|jaas|\.key$|\.key\.pem$|^ssl\.keystore\.key|token")


class HostPort(NamedTuple):
    """Where a node listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class SaslCredentials(NamedTuple):
    """Who a client says it is. by_token: name and password are a delegation token's id and HMAC."""

    mechanism: str
    username: str
    password: Password
    by_token: bool = False


@dataclass(frozen=True)
class ClientConfig:
    """Settings of a client. properties: as they were given, references unresolved; safe to print and to pickle."""

    properties: Mapping[str, str] = field(repr=False)

    @classmethod
    def from_properties(cls, properties: Mapping[str, str], **more: str) -> ClientConfig:
        """Give the configuration of these settings; ConfigError for a value that can already be seen to be wrong.

        more: settings on top, `_` standing for `.`: from_properties(props, group_id="g").
        """
        merged = dict(properties) | {key.replace("_", "."): value for key, value in more.items()}
        config = cls(merged)
        for name, text in _javas_spelling(merged).items():
            key = CLIENT_KEYS.get(name)
            if key is not None and not _REFERENCE.search(text):
                key.parse(text)
        return config

    def __repr__(self) -> str:
        shown = {k: MASKED if _SECRET.search(k) else v for k, v in self.properties.items()}
        return f"ClientConfig({shown})"

    def __getstate__(self) -> dict[str, Any]:
        return {"properties": self.properties}  # resolved secrets do not travel

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    def with_properties(self, **more: str) -> ClientConfig:
        """Give the same configuration with some settings changed, `_` standing for `.`."""
        return ClientConfig.from_properties(self.properties, **more)

    @cached_property
    def java_properties(self) -> Mapping[str, str]:
        """Give all settings in Java's spelling, references resolved: what TLS contexts are made from."""
        spelled = _javas_spelling(self.properties) | _key_pair_files(self.properties)
        return {k: resolve_references(v) for k, v in spelled.items()}

    @cached_property
    def _values(self) -> Mapping[str, Any]:
        return CLIENT_KEYS.parse(self.java_properties).values

    def __getitem__(self, key: str) -> Any:
        return self._values[key]

    def integer(self, key: str) -> int:
        """Give a number."""
        value: int = self._values[key]
        return value

    def text(self, key: str) -> str | None:
        """Give a text, None when it is not set."""
        value: str | None = self._values[key]
        return value

    @property
    def unknown(self) -> Mapping[str, str | None]:
        """Give the settings that mean nothing here, each with the one that was probably meant."""
        return {
            key: CLIENT_KEYS.nearest(key)
            for key in _javas_spelling(self.properties)
            if key not in CLIENT_KEYS and key != "enable.ssl.certificate.verification"
        }

    @cached_property
    def bootstrap(self) -> tuple[HostPort, ...]:
        """Give the nodes to start from; ConfigError when there is none or one cannot be read."""
        servers: list[str] = self._values["bootstrap.servers"]
        if self.asks_controllers:
            if servers:
                raise ConfigError("bootstrap.servers and bootstrap.controllers are both set: want one of them")
            servers = self._values["bootstrap.controllers"]
        if not servers:
            raise ConfigError("bootstrap.servers is not set: want host:port of a node, such as localhost:9092")
        return tuple(parse_host_port(server) for server in servers)

    @property
    def asks_controllers(self) -> bool:
        """Say whether the controllers are asked, not the brokers."""
        return bool(self._values["bootstrap.controllers"])

    @property
    def security_protocol(self) -> str:
        """Give PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL."""
        protocol: str = self._values["security.protocol"]
        return protocol.upper()

    @property
    def uses_tls(self) -> bool:
        """Say whether connections are encrypted."""
        return self.security_protocol in ("SSL", "SASL_SSL")

    @property
    def by_bearer_token(self) -> bool:
        """Say whether this client logs in by OAUTHBEARER, as the one whom its token names."""
        return self._mechanism == oauthbearer.NAME

    @property
    def by_ticket(self) -> bool:
        """Say whether this client logs in by GSSAPI, as the one to whom its Kerberos ticket belongs."""
        return self._mechanism == gssapi.NAME

    @property
    def _mechanism(self) -> str | None:
        mechanism: str = self._values["sasl.mechanism"]
        return mechanism.upper() if self.security_protocol.startswith("SASL") else None

    @property
    def jaas_options(self) -> Mapping[str, str]:
        """Give the options of `sasl.jaas.config`, secrets among them; ConfigError when it cannot be read."""
        jaas: Password | None = self._values["sasl.jaas.config"]
        if jaas is not None:
            return _login_module(jaas).options
        table, principal = self.text("sasl.kerberos.keytab"), self.text("sasl.kerberos.principal")
        named = {"keyTab": table, "principal": principal}
        return {"useKeyTab": "true", **{k: v for k, v in named.items() if v}} if any(named.values()) else {}

    @property
    def sasl(self) -> SaslCredentials | None:
        """Give who this client says it is; None without SASL and where a token or a ticket says it.

        ConfigError when name or password is missing.
        """
        mechanism = self._mechanism
        if mechanism is None or self.by_bearer_token or self.by_ticket:
            return None
        username, password = self.text("sasl.username"), self._values["sasl.password"]
        jaas: Password | None = self._values["sasl.jaas.config"]
        by_token = False
        if username is None and jaas is not None:
            username, password, by_token = _from_jaas(jaas)
        if username is None or password is None:
            raise ConfigError(
                f"security.protocol is {self.security_protocol}, but there is no user name and password: set "
                "sasl.jaas.config, or sasl.username and sasl.password"
            )
        return SaslCredentials(mechanism, username, password, by_token)


def load_properties_file(path: str | Path) -> dict[str, str]:
    """Give the pairs of a Java properties file; ConfigError when it cannot be read."""
    try:
        return parse_properties(Path(path).read_text(encoding="utf-8"))
    except OSError as e:
        raise ConfigError(f"cannot read the properties file {path}: {e.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"cannot read the properties file {path}: it is not UTF-8 text") from None


def parse_host_port(text: str) -> HostPort:
    """Give what `host:port` or `[::1]:port` says; ConfigError when it says neither."""
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise ConfigError(f"bootstrap.servers: {text!r} is not host:port, such as localhost:9092")
    return HostPort(host, int(port))


def resolve_references(text: str) -> str:
    """Give `text` with each reference in it replaced; ConfigError when what one stands for is not there."""

    def one(match: re.Match[str]) -> str:
        kind, what = match.groups()
        if kind == "env":
            if what not in os.environ:
                raise ConfigError(f"${{env:{what}}}: there is no environment variable {what}")
            return os.environ[what]
        path, _, key = what.rpartition(":")
        if not path:
            raise ConfigError(f"${{{kind}:{what}}}: want ${{{kind}:PATH:{'key' if kind == 'file' else 'name'}}}")
        if kind == "dir":
            return _read_text(f"{path}/{key}")
        pairs = load_properties_file(path)
        if key not in pairs:
            raise ConfigError(f"${{file:{what}}}: there is no key {key} in {path}")
        return pairs[key]

    return _REFERENCE.sub(one, text)


def _login_module(jaas: Password) -> LoginModule:
    try:
        return parse_jaas(jaas.secret)
    except JaasError as e:
        raise ConfigError(f"sasl.jaas.config: {e}") from None


def _from_jaas(jaas: Password) -> tuple[str | None, Password | None, bool]:
    module = _login_module(jaas)
    return module.username, None if module.password is None else Password(module.password), module.by_token


def _javas_spelling(properties: Mapping[str, str]) -> dict[str, str]:
    out: dict[str, str] = {}
    for key, value in properties.items():
        name = _LIBRDKAFKA.get(key, key)
        if name not in _LIBRDKAFKA_FILES and name != "enable.ssl.certificate.verification":
            out[name] = _VALUES.get((name, value), value)
    if "ssl.ca.location" in properties:
        out |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": properties["ssl.ca.location"]}
    if "ssl.truststore.certificates" in out:
        out.setdefault("ssl.truststore.type", "PEM")
    if "ssl.keystore.key" in out:
        out.setdefault("ssl.keystore.type", "PEM")
    if properties.get("enable.ssl.certificate.verification", "true").lower() == "false":
        raise ConfigError(
            "enable.ssl.certificate.verification=false is refused here: name the authority in ssl.ca.location instead"
        )
    return out


def _key_pair_files(properties: Mapping[str, str]) -> dict[str, str]:
    certificate, key = (properties.get(f"ssl.{part}.location") for part in ("certificate", "key"))
    if certificate is None and key is None:
        return {}
    if certificate is None or key is None:
        raise ConfigError("ssl.certificate.location and ssl.key.location must be set both or not at all")
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": _read_text(certificate),
        "ssl.keystore.key": _read_text(key),
    }


def _read_text(path: str) -> str:
    resolved = resolve_references(path)
    try:
        return Path(resolved).read_text(encoding="utf-8")
    except OSError as e:
        raise ConfigError(f"cannot read {resolved}: {e.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"cannot read {resolved}: it is not UTF-8 text") from None
