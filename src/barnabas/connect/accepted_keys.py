"""Settings of Connect's workers that are taken and checked, and that nothing here acts on: Java classes and such."""

from __future__ import annotations

from typing import Final

from barnabas.connect.list_checks import no_empty_item, some_items
from barnabas.model.config import ConfigKey, ConfigType, Importance, Validator, at_least, between, one_of

_B, _S, _I, _SHORT, _L, _D, _LIST, _C, _P = (
    ConfigType.BOOLEAN,
    ConfigType.STRING,
    ConfigType.INT,
    ConfigType.SHORT,
    ConfigType.LONG,
    ConfigType.DOUBLE,
    ConfigType.LIST,
    ConfigType.CLASS,
    ConfigType.PASSWORD,
)
_HIGH, _MEDIUM, _LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW
_LOOKUPS: Final = ("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only")
_DISCOVERIES: Final = ("only_scan", "service_load", "hybrid_warn", "hybrid_fail")
_JWT_VALIDATOR: Final = "org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator"


def _accepted(
    name: str, kind: ConfigType, default: object, importance: Importance, validator: Validator | None = None
) -> ConfigKey:
    return ConfigKey(name, kind, default, importance=importance, validator=validator)


ACCEPTED: Final = (
    _accepted(
        "client.dns.lookup",
        _S,
        "use_all_dns_ips",
        _MEDIUM,
        one_of("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"),
    ),
    _accepted("connections.max.idle.ms", _L, 540_000, _MEDIUM),
    _accepted("header.converter.plugin.version", _S, None, _LOW),
    _accepted("key.converter.plugin.version", _S, None, _LOW),
    _accepted("value.converter.plugin.version", _S, None, _LOW),
    _accepted("metadata.recovery.rebootstrap.trigger.ms", _L, 300_000, _LOW, at_least(0)),
    _accepted("metadata.recovery.strategy", _S, "rebootstrap", _LOW, one_of("rebootstrap", "none", ignore_case=True)),
    _accepted("metric.reporters", _LIST, ["org.apache.kafka.common.metrics.JmxReporter"], _LOW, no_empty_item),
    _accepted("metrics.num.samples", _I, 2, _LOW, at_least(1)),
    _accepted("metrics.recording.level", _S, "INFO", _LOW, one_of("INFO", "DEBUG")),
    _accepted("metrics.sample.window.ms", _L, 30_000, _LOW, at_least(0)),
    _accepted("offset.flush.timeout.ms", _L, 5000, _LOW),
    _accepted(
        "plugin.discovery",
        _S,
        "hybrid_warn",
        _LOW,
        one_of(*_DISCOVERIES, ignore_case=True),
    ),
    _accepted("plugin.path", _LIST, None, _LOW, some_items),
    _accepted("reconnect.backoff.max.ms", _L, 1000, _LOW, at_least(0)),
    _accepted("reconnect.backoff.ms", _L, 50, _LOW, at_least(0)),
    _accepted("sasl.client.callback.handler.class", _C, None, _MEDIUM),
    _accepted("sasl.kerberos.kinit.cmd", _S, "/usr/bin/kinit", _LOW),
    _accepted("sasl.kerberos.min.time.before.relogin", _L, 60_000, _LOW),
    _accepted("sasl.kerberos.service.name", _S, None, _MEDIUM),
    _accepted("sasl.kerberos.ticket.renew.jitter", _D, 0.05, _LOW),
    _accepted("sasl.kerberos.ticket.renew.window.factor", _D, 0.8, _LOW),
    _accepted("sasl.login.callback.handler.class", _C, None, _MEDIUM),
    _accepted("sasl.login.class", _C, None, _MEDIUM),
    _accepted("sasl.login.connect.timeout.ms", _I, None, _LOW),
    _accepted("sasl.login.read.timeout.ms", _I, None, _LOW),
    _accepted("sasl.login.refresh.buffer.seconds", _SHORT, 300, _LOW, between(0, 3600)),
    _accepted("sasl.login.refresh.min.period.seconds", _SHORT, 60, _LOW, between(0, 900)),
    _accepted("sasl.login.refresh.window.jitter", _D, 0.05, _LOW, between(0.0, 0.25)),
    _accepted("sasl.login.retry.backoff.max.ms", _L, 10_000, _LOW),
    _accepted("sasl.login.retry.backoff.ms", _L, 100, _LOW),
    _accepted("sasl.oauthbearer.assertion.algorithm", _S, "RS256", _MEDIUM, one_of("RS256", "ES256", ignore_case=True)),
    _accepted("sasl.oauthbearer.assertion.claim.aud", _S, None, _MEDIUM),
    _accepted("sasl.oauthbearer.assertion.claim.exp.seconds", _I, 300, _LOW, between(0, 86_400)),
    _accepted("sasl.oauthbearer.assertion.claim.iss", _S, None, _MEDIUM),
    _accepted("sasl.oauthbearer.assertion.claim.jti.include", _B, False, _MEDIUM),
    _accepted("sasl.oauthbearer.assertion.claim.nbf.seconds", _I, 60, _LOW, between(0, 3600)),
    _accepted("sasl.oauthbearer.assertion.claim.sub", _S, None, _MEDIUM),
    _accepted("sasl.oauthbearer.assertion.file", _S, None, _MEDIUM),
    _accepted("sasl.oauthbearer.assertion.private.key.file", _S, None, _MEDIUM),
    _accepted("sasl.oauthbearer.assertion.private.key.passphrase", _P, None, _MEDIUM),
    _accepted("sasl.oauthbearer.assertion.template.file", _S, None, _MEDIUM),
    _accepted("sasl.oauthbearer.clock.skew.seconds", _I, 30, _LOW),
    _accepted("sasl.oauthbearer.expected.audience", _LIST, [], _HIGH),
    _accepted("sasl.oauthbearer.expected.issuer", _S, None, _HIGH),
    _accepted("sasl.oauthbearer.jwks.endpoint.refresh.ms", _L, 3_600_000, _LOW),
    _accepted("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", _L, 10_000, _LOW),
    _accepted("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms", _L, 100, _LOW),
    _accepted("sasl.oauthbearer.jwks.endpoint.url", _S, None, _MEDIUM),
    _accepted(
        "sasl.oauthbearer.jwt.validator.class",
        _C,
        _JWT_VALIDATOR,
        _MEDIUM,
    ),
    _accepted("sasl.oauthbearer.scope.claim.name", _S, "scope", _LOW),
    _accepted("sasl.oauthbearer.sub.claim.name", _S, "sub", _LOW),
    _accepted("socket.connection.setup.timeout.max.ms", _L, 30_000, _LOW, at_least(0)),
    _accepted("ssl.engine.factory.class", _C, None, _LOW),
    _accepted("ssl.keymanager.algorithm", _S, "SunX509", _LOW),
    _accepted("ssl.provider", _S, None, _MEDIUM),
    _accepted("ssl.secure.random.implementation", _S, None, _LOW),
    _accepted("ssl.trustmanager.algorithm", _S, "PKIX", _LOW),
)
