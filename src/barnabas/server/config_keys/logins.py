"""Keys of who a peer is and what its login is checked against: principals, delegation tokens, OAUTHBEARER."""

from typing import Final

from barnabas.model.config import ConfigKey, ConfigType, DynamicMode, Importance, at_least

KEYS: Final = (
    ConfigKey(
        "principal.builder.class",
        ConfigType.CLASS,
        "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
        "What makes principals of connections: Kafka's default builder, or a Python class as module:Class that also has serialize and deserialize (KIP-590).",
        dynamic=DynamicMode.PER_BROKER,
    ),
    ConfigKey(
        "delegation.token.expiry.check.interval.ms",
        ConfigType.LONG,
        3_600_000,
        "How often the controller looks for delegation tokens that are past their time, ms.",
        importance=Importance.LOW,
        validator=at_least(1),
    ),
    ConfigKey(
        "delegation.token.expiry.time.ms",
        ConfigType.LONG,
        86_400_000,
        "How long a delegation token is good for until it is renewed, ms.",
        validator=at_least(1),
    ),
    ConfigKey(
        "delegation.token.max.lifetime.ms",
        ConfigType.LONG,
        604_800_000,
        "How long a delegation token can be renewed for, ms from its making.",
        validator=at_least(1),
    ),
    ConfigKey(
        "delegation.token.secret.key",
        ConfigType.PASSWORD,
        None,
        "What delegation tokens are made from; the same on every node of the cluster. Empty or not set: there are no tokens (KIP-48).",
    ),
    ConfigKey(
        "sasl.oauthbearer.clock.skew.seconds",
        ConfigType.INT,
        30,
        "How far an issuer's clock may be off, s.",
        importance=Importance.LOW,
    ),
    ConfigKey(
        "sasl.oauthbearer.expected.audience",
        ConfigType.LIST,
        (),
        "Whom a token must be meant for: one of these, its claim aud. Empty takes only tokens that name nobody.",
        importance=Importance.HIGH,
    ),
    ConfigKey(
        "sasl.oauthbearer.expected.issuer",
        ConfigType.STRING,
        None,
        "Who must have made a token, its claim iss; not set takes anybody whose key is known.",
        importance=Importance.HIGH,
    ),
    ConfigKey(
        "sasl.oauthbearer.jwks.endpoint.refresh.ms",
        ConfigType.LONG,
        3_600_000,
        "How often the keys are fetched again, ms.",
        importance=Importance.LOW,
    ),
    ConfigKey(
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
        ConfigType.LONG,
        10_000,
        "How long to wait at most before keys that could not be fetched are asked for again, ms.",
        importance=Importance.LOW,
    ),
    ConfigKey(
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
        ConfigType.LONG,
        100,
        "How long to wait at first, ms.",
        importance=Importance.LOW,
    ),
    ConfigKey(
        "sasl.oauthbearer.jwks.endpoint.url",
        ConfigType.STRING,
        None,
        "Where the keys are that tokens of OAUTHBEARER are signed with: an https: or file: URL of a JSON Web Key Set (KIP-768).",
    ),
    ConfigKey(
        "sasl.oauthbearer.scope.claim.name",
        ConfigType.STRING,
        "scope",
        "The claim that holds a token's scope.",
        importance=Importance.LOW,
    ),
    ConfigKey(
        "sasl.oauthbearer.sub.claim.name",
        ConfigType.STRING,
        "sub",
        "The claim that names the user.",
        importance=Importance.LOW,
    ),
    ConfigKey(
        "sasl.server.callback.handler.class",
        ConfigType.CLASS,
        None,
        "What checks the logins of one mechanism on one listener, by the prefix listener.name.<name>.<mechanism>: for PLAIN a Python class as module:Class.",
    ),
    ConfigKey(
        "sasl.login.refresh.window.factor",
        ConfigType.DOUBLE,
        0.8,
        "The part of a token's life after which this node fetches another one.",
        dynamic=DynamicMode.PER_BROKER,
    ),
    ConfigKey(
        "sasl.oauthbearer.client.credentials.client.id",
        ConfigType.STRING,
        None,
        "Whom this node asks the issuer of tokens as; clientId in JAAS.",
    ),
    ConfigKey(
        "sasl.oauthbearer.client.credentials.client.secret",
        ConfigType.PASSWORD,
        None,
        "The secret of that; clientSecret in JAAS.",
    ),
    ConfigKey(
        "sasl.oauthbearer.jwt.retriever.class",
        ConfigType.CLASS,
        "org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever",
        "Where this node's own tokens come from, instead of a URL: a Python function as module:name.",
    ),
    ConfigKey(
        "sasl.oauthbearer.scope",
        ConfigType.STRING,
        None,
        "What this node asks the issuer of tokens for; scope in JAAS.",
    ),
    ConfigKey(
        "sasl.oauthbearer.token.endpoint.url",
        ConfigType.STRING,
        None,
        "Where this node's own tokens come from: an issuer's https: URL, or a file: that is kept fresh.",
    ),
)
