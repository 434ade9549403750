"""Authorizer, SASL and TLS keys of a node."""

from typing import Final

from barnabas.model.config import ConfigKey, ConfigType, DynamicMode, Importance, one_of

KEYS: Final = (
    ConfigKey(
        "authorizer.class.name",
        ConfigType.STRING,
        "",
        "The authorizer: org.apache.kafka.metadata.authorizer.StandardAuthorizer, in ZooKeeper mode "
        "kafka.security.authorizer.AclAuthorizer, a Python class as module:Class (barnabas.model.authorizer says of "
        "what shape), or empty for none (KIP-801).",
        importance=Importance.LOW,
    ),
    ConfigKey(
        "connections.max.reauth.ms",
        ConfigType.LONG,
        0,
        "How long a SASL session may be used before the client has to log in again, ms; 0: without end (KIP-368). May be "
        "set for one listener or mechanism: listener.name.<name>.<mechanism>.connections.max.reauth.ms.",
    ),
    ConfigKey(
        "super.users",
        ConfigType.STRING,
        "",
        "Principals that may do everything, DENY rules or not: Type:name, separated by semicolons (KIP-801).",
    ),
    ConfigKey(
        "allow.everyone.if.no.acl.found",
        ConfigType.BOOLEAN,
        False,
        "Whether a resource that no ACL at all applies to is open to everybody.",
    ),
    ConfigKey(
        "sasl.enabled.mechanisms",
        ConfigType.LIST,
        ("GSSAPI",),
        "The SASL mechanisms offered: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER, GSSAPI; may be set for one listener by its prefix.",
        dynamic=DynamicMode.PER_BROKER,
    ),
    ConfigKey(
        "sasl.jaas.config",
        ConfigType.PASSWORD,
        None,
        "Credentials of one mechanism on one listener, in JAAS form, by the prefix listener.name.<name>.<mechanism>.",
        dynamic=DynamicMode.PER_BROKER,
    ),
    ConfigKey(
        "sasl.mechanism.controller.protocol",
        ConfigType.STRING,
        "GSSAPI",
        "The SASL mechanism towards controllers.",
        importance=Importance.HIGH,
    ),
    ConfigKey(
        "sasl.mechanism.inter.broker.protocol",
        ConfigType.STRING,
        "GSSAPI",
        "The SASL mechanism between brokers.",
        dynamic=DynamicMode.PER_BROKER,
    ),
    ConfigKey(
        "sasl.server.max.receive.size",
        ConfigType.INT,
        524_288,
        "The largest request that is read before a client has logged in, bytes.",
    ),
    ConfigKey(
        "ssl.cipher.suites",
        ConfigType.LIST,
        (),
        "The TLS cipher suites allowed; empty is OpenSSL's default.",
        dynamic=DynamicMode.PER_BROKER,
    ),
    ConfigKey(
        "ssl.client.auth",
        ConfigType.STRING,
        "none",
        "Whether clients must show a certificate: required, requested or none.",
        validator=one_of("required", "requested", "none"),
        dynamic=DynamicMode.PER_BROKER,
    ),
    ConfigKey(
        "ssl.enabled.protocols",
        ConfigType.LIST,
        ("TLSv1.2", "TLSv1.3"),
        "The TLS versions allowed.",
        dynamic=DynamicMode.PER_BROKER,
    ),
    ConfigKey(
        "ssl.endpoint.identification.algorithm",
        ConfigType.STRING,
        "https",
        "https checks that a server's certificate names its host; empty does not.",
        importance=Importance.LOW,
        dynamic=DynamicMode.PER_BROKER,
    ),
    ConfigKey(
        "ssl.key.password",
        ConfigType.PASSWORD,
        None,
        "The password of the private key.",
        dynamic=DynamicMode.PER_BROKER,
    ),
    ConfigKey(
        "ssl.keystore.certificate.chain",
        ConfigType.PASSWORD,
        None,
        "The certificate chain as PEM text, instead of a file.",
        dynamic=DynamicMode.PER_BROKER,
    ),
    ConfigKey(
        "ssl.keystore.key",
        ConfigType.PASSWORD,
        None,
        "The private key as PEM text (PKCS#8), instead of a file.",
        dynamic=DynamicMode.PER_BROKER,
    ),
    ConfigKey(
        "ssl.keystore.location",
        ConfigType.STRING,
        None,
        "The file with our certificate and key.",
        dynamic=DynamicMode.PER_BROKER,
    ),
    ConfigKey(
        "ssl.keystore.password",
        ConfigType.PASSWORD,
        None,
        "The password of the keystore file.",
        dynamic=DynamicMode.PER_BROKER,
    ),
    ConfigKey(
        "ssl.keystore.type",
        ConfigType.STRING,
        "JKS",
        "The kind of keystore: PEM, PKCS12 or JKS.",
        dynamic=DynamicMode.PER_BROKER,
    ),
    ConfigKey(
        "ssl.principal.mapping.rules",
        ConfigType.STRING,
        "DEFAULT",
        "How a certificate's name becomes a principal: RULE:pattern/replacement/[LU] or DEFAULT, separated by commas.",
        importance=Importance.LOW,
    ),
    ConfigKey(
        "ssl.protocol",
        ConfigType.STRING,
        "TLSv1.3",
        "The newest TLS version used.",
        dynamic=DynamicMode.PER_BROKER,
    ),
    ConfigKey(
        "ssl.truststore.certificates",
        ConfigType.PASSWORD,
        None,
        "Trusted certificates as PEM text, instead of a file.",
        dynamic=DynamicMode.PER_BROKER,
    ),
    ConfigKey(
        "ssl.truststore.location",
        ConfigType.STRING,
        None,
        "The file with the certificates we trust.",
        dynamic=DynamicMode.PER_BROKER,
    ),
    ConfigKey(
        "ssl.truststore.password",
        ConfigType.PASSWORD,
        None,
        "The password of the truststore file.",
        dynamic=DynamicMode.PER_BROKER,
    ),
    ConfigKey(
        "ssl.truststore.type",
        ConfigType.STRING,
        "JKS",
        "The kind of truststore: PEM, PKCS12 or JKS.",
        dynamic=DynamicMode.PER_BROKER,
    ),
)
