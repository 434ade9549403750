"""How a listener finds tokens of OAUTHBEARER good, by Kafka's keys (KIP-255, KIP-768).

Signed tokens, by `sasl.oauthbearer.jwks.endpoint.url`, are the rule. Tokens that nobody signed are taken only where
`sasl.server.callback.handler.class` names Kafka's handler for them, and that is complained about at the start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import structlog

from barnabas.core.sasl.jaas import JaasError, parse_jaas
from barnabas.core.sasl.mechanisms.claims import ClaimRules, check, unsecured
from barnabas.core.sasl.mechanisms.oauthbearer import NAME, BearerToken, Validate
from barnabas.model.config import ConfigError
from barnabas.model.ports import Clock

if TYPE_CHECKING:
    from barnabas.server.config import NodeConfig
    from barnabas.server.logins.jwks import KeySource

log = structlog.get_logger("kafka.security.oauthbearer")

HANDLER: Final = "sasl.server.callback.handler.class"
SECURED: Final = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
UNSECURED: Final = (
    "org.apache.kafka.common.security.oauthbearer.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
)
URL: Final = "sasl.oauthbearer.jwks.endpoint.url"


def validator(config: NodeConfig, listener: str, clock: Clock) -> tuple[Validate, KeySource | None]:
    """Give what finds a listener's tokens good, and where its keys come from; ConfigError names the key to set."""

    def value(key: str) -> Any:
        return config.on_mechanism(listener, NAME, key)

    handler, url = config.handler_of(listener, NAME), value(URL)
    if handler == UNSECURED:
        log.warning("anybody can log in as anybody: tokens that nobody signed are taken", listener=listener)
        return _Unsecured(_unsecured_rules(config, listener), clock), None
    if handler not in (None, SECURED):
        raise ConfigError(f"{HANDLER}={handler}: want {SECURED}, or {UNSECURED} for tests")
    if not url:
        raise ConfigError(f"{URL} is missing: listener {listener} offers {NAME}, whose tokens are checked by its keys")
    rules = ClaimRules(
        audiences=tuple(value("sasl.oauthbearer.expected.audience")),
        issuer=value("sasl.oauthbearer.expected.issuer") or None,
        clock_skew_ms=value("sasl.oauthbearer.clock.skew.seconds") * 1000,
        sub_claim=value("sasl.oauthbearer.sub.claim.name"),
        scope_claim=value("sasl.oauthbearer.scope.claim.name"),
    )
    if not rules.audiences or rules.issuer is None:
        log.warning(
            "tokens are taken whomever they are meant for: set sasl.oauthbearer.expected.audience and .expected.issuer",
            listener=listener,
        )
    try:
        from barnabas.server.logins.jwks import key_source
        from barnabas.server.logins.jwt import JwtValidator
    except ImportError as e:
        raise ConfigError(f"{NAME} needs another package ({e}): pip install 'barnabas[oauth]'") from None
    source = key_source(
        url,
        value("sasl.oauthbearer.jwks.endpoint.refresh.ms"),
        value("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms"),
        value("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms"),
        clock,
    )
    return JwtValidator(source, rules, clock), source


class _Unsecured:
    def __init__(self, rules: ClaimRules, clock: Clock) -> None:
        self._rules = rules
        self._clock = clock

    def __call__(self, token: str) -> BearerToken:
        return check(unsecured(token), self._rules, self._clock.now_ms())


def _unsecured_rules(config: NodeConfig, listener: str) -> ClaimRules:
    text = config.on_mechanism(listener, NAME, "sasl.jaas.config")
    try:
        options = {} if text is None else parse_jaas(text.secret).options
        skew_ms = int(options.get("unsecuredValidatorAllowableClockSkewMs", "0"))
    except (JaasError, ValueError) as e:
        raise ConfigError(f"listener.name.{listener.lower()}.oauthbearer.sasl.jaas.config: {e}") from None
    return ClaimRules(
        clock_skew_ms=skew_ms,
        sub_claim=options.get("unsecuredValidatorPrincipalClaimName", "sub"),
        scope_claim=options.get("unsecuredValidatorScopeClaimName", "scope"),
        required_scope=tuple(options.get("unsecuredValidatorRequiredScope", "").split()),
        issued_at_required=False,
        any_audience=True,
    )
