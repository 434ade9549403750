"""The keys of ZooKeeper's clients: those of Kafka 3.9's `server.properties`, and the JVM's that belong to them.

What Kafka takes as system properties alone may stand in the file as well; the file counts where both say something.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from barnabas.model.config import ConfigKey, ConfigTable, ConfigType, Importance, at_least

CONNECT: Final = "zookeeper.connect"
SESSION_TIMEOUT: Final = "zookeeper.session.timeout.ms"
CONNECTION_TIMEOUT: Final = "zookeeper.connection.timeout.ms"
SET_ACL: Final = "zookeeper.set.acl"
LOGIN_CONFIG: Final = "java.security.auth.login.config"
SASL_CLIENT: Final = "zookeeper.sasl.client"
SECTION: Final = "zookeeper.sasl.clientconfig"
SERVICE: Final = "zookeeper.sasl.client.username"
TLS: Final = "zookeeper.ssl.client.enable"
SOCKET: Final = "zookeeper.clientCnxnSocket"
NETTY_SOCKET: Final = "org.apache.zookeeper.ClientCnxnSocketNetty"

_STRING, _LIST, _PASSWORD = ConfigType.STRING, ConfigType.LIST, ConfigType.PASSWORD

TLS_KEYS: Final[Mapping[str, str]] = {
    "zookeeper.ssl.keystore.location": "ssl.keystore.location",
    "zookeeper.ssl.keystore.password": "ssl.keystore.password",
    "zookeeper.ssl.keystore.type": "ssl.keystore.type",
    "zookeeper.ssl.truststore.location": "ssl.truststore.location",
    "zookeeper.ssl.truststore.password": "ssl.truststore.password",
    "zookeeper.ssl.truststore.type": "ssl.truststore.type",
    "zookeeper.ssl.protocol": "ssl.protocol",
    "zookeeper.ssl.enabled.protocols": "ssl.enabled.protocols",
    "zookeeper.ssl.cipher.suites": "ssl.cipher.suites",
    "zookeeper.ssl.endpoint.identification.algorithm": "ssl.endpoint.identification.algorithm",
}
"""What each is called without ZooKeeper."""

JVM_KEYS: Final = (LOGIN_CONFIG, SASL_CLIENT, SECTION, SERVICE)
"""What Kafka has as system properties alone."""
SYSTEM_NAMES: Final[Mapping[str, str]] = {
    TLS: "zookeeper.client.secure",
    SOCKET: "zookeeper.clientCnxnSocket",
    "zookeeper.ssl.keystore.location": "zookeeper.ssl.keyStore.location",
    "zookeeper.ssl.keystore.password": "zookeeper.ssl.keyStore.password",
    "zookeeper.ssl.keystore.type": "zookeeper.ssl.keyStore.type",
    "zookeeper.ssl.truststore.location": "zookeeper.ssl.trustStore.location",
    "zookeeper.ssl.truststore.password": "zookeeper.ssl.trustStore.password",
    "zookeeper.ssl.truststore.type": "zookeeper.ssl.trustStore.type",
    "zookeeper.ssl.protocol": "zookeeper.ssl.protocol",
    "zookeeper.ssl.enabled.protocols": "zookeeper.ssl.enabledProtocols",
    "zookeeper.ssl.cipher.suites": "zookeeper.ssl.ciphersuites",
    **{key: key for key in JVM_KEYS},
}
"""Under which name a key may come as a system property."""
HOST_CHECK: Final = "zookeeper.ssl.hostnameVerification"
"""As a system property a boolean, where the file has the name of an algorithm."""


def _key(
    name: str, kind: ConfigType, default: object, doc: str, importance: Importance = Importance.MEDIUM
) -> ConfigKey:
    return ConfigKey(name, kind, default, doc, importance)


def _ms(name: str, default: int | None, doc: str) -> ConfigKey:
    return ConfigKey(name, ConfigType.INT, default, doc, Importance.HIGH, at_least(1))


ZOOKEEPER_KEYS: Final = ConfigTable(
    _key(CONNECT, _STRING, None, "Where ZooKeeper is: host:port,host:port/chroot.", Importance.HIGH),
    _ms(SESSION_TIMEOUT, 18_000, "After how long without a word ZooKeeper ends our session, ms."),
    _ms(CONNECTION_TIMEOUT, None, "How long a start waits for ZooKeeper, ms; as the session's timeout when not set."),
    _key(SET_ACL, ConfigType.BOOLEAN, False, "Whether znodes that we make are ours alone to change (KIP-38).",
         Importance.HIGH),
    _key(LOGIN_CONFIG, _STRING, None, "The JAAS file whose section Client is our login at ZooKeeper.", Importance.HIGH),
    _key(SASL_CLIENT, ConfigType.BOOLEAN, True, "false: log in nowhere, though there is a JAAS file."),
    _key(SECTION, _STRING, "Client", "The section of the JAAS file that is ours."),
    _key(SERVICE, _STRING, "zookeeper", "The first part of the Kerberos principals of ZooKeeper's servers."),
    _key(TLS, ConfigType.BOOLEAN, False, "Whether we speak TLS to ZooKeeper."),
    _key(SOCKET, _STRING, None, f"Kafka's class for connections; with TLS {NETTY_SOCKET}, or nothing."),
    _key("zookeeper.ssl.keystore.location", _STRING, None, "The file with our certificate and key for ZooKeeper."),
    _key("zookeeper.ssl.keystore.password", _PASSWORD, None, "The password of that file."),
    _key("zookeeper.ssl.keystore.type", _STRING, None, "PEM, PKCS12 or JKS; by the ending of its name when not set."),
    _key("zookeeper.ssl.truststore.location", _STRING, None, "The file with the CAs of the servers' certificates."),
    _key("zookeeper.ssl.truststore.password", _PASSWORD, None, "The password of that file."),
    _key("zookeeper.ssl.truststore.type", _STRING, None, "PEM, PKCS12 or JKS; by the ending of its name when not set."),
    _key("zookeeper.ssl.protocol", _STRING, "TLSv1.2", "The version of TLS, unless enabled.protocols lists some."),
    _key("zookeeper.ssl.enabled.protocols", _LIST, None, "The versions of TLS that may be spoken to ZooKeeper."),
    _key("zookeeper.ssl.cipher.suites", _LIST, None, "The cipher suites that may be used towards ZooKeeper."),
    _key("zookeeper.ssl.endpoint.identification.algorithm", _STRING, "HTTPS",
         "Whether the server's certificate has to name its host: HTTPS, or empty for no."),
)  # fmt: skip
"""Keys that ZooKeeper's clients read; a server's other keys are none of theirs."""
