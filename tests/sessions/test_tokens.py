"""Sessions that were begun by tokens, which have an end of their own."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, Final

import pytest

from barnabas.testing.cluster import Cluster
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from barnabas.wire.messages.sasl_handshake import SaslHandshakeRequest
from tests.mechanisms.issuer import unsigned
from tests.server.frames import FramePeer, port_of
from tests.server.requests import build

from .nodes import LONG, SHORT, StandingClock, killed, served, session_settings

pytestmark = pytest.mark.slow

HOUR_MS: Final = 3_600_000
SKEW_S: Final = 60
_HANDLER: Final = (
    "org.apache.kafka.common.security.oauthbearer.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
)
_JAAS: Final = (
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
    f'unsecuredValidatorAllowableClockSkewMs="{SKEW_S * 1000}";'
)


@pytest.fixture(scope="module")
def clock() -> StandingClock:
    return StandingClock()


@pytest.fixture(scope="module")
def cluster(clock: StandingClock, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    more: dict[str, str] = {}
    for listener in ("long", "short"):
        prefix = f"listener__name__{listener}__"
        more |= {
            f"{prefix}sasl__enabled__mechanisms": "PLAIN,OAUTHBEARER",
            f"{prefix}oauthbearer__sasl__server__callback__handler__class": _HANDLER,
            f"{prefix}oauthbearer__sasl__jaas__config": _JAAS,
        }
    more["listener__name__long__connections__max__reauth__ms"] = str(HOUR_MS)
    more["listener__name__short__connections__max__reauth__ms"] = "0"
    more["principal__builder__class"] = "tests.sessions.tenants:ClaimedTenant"
    more["authorizer__class__name"] = "tests.mechanisms.builders:OwnTenant"
    with Cluster(tmp_path_factory.mktemp("tokens"), session_settings(**more), conduct=clock) as found:
        yield found


def show(peer: FramePeer, lifetime_s: float, **claims: Any) -> Any:
    """Log in by a token that has so long to live; gives the answer to it."""
    now = time.time()
    said = {"sub": "alice", "iat": now - 3600, "exp": now + lifetime_s, "tenant": "red", **claims}
    shaken = peer.call(SaslHandshakeRequest(mechanism="OAUTHBEARER"))
    assert shaken.error_code == ErrorCode.NONE
    message = f"n,,\x01auth=Bearer {unsigned({'alg': 'none'}, said)}\x01\x01".encode()
    return peer.call(SaslAuthenticateRequest(auth_bytes=message))


def log_end(peer: FramePeer, topic: str) -> int:
    """Give the error that asking for the end of a topic's log gives."""
    partition = {"partition_index": 0, "timestamp": -1}
    asked = build(ApiKey.LIST_OFFSETS, replica_id=-1, topics=[{"name": topic, "partitions": [partition]}])
    return int(peer.call(asked, 1).topics[0].partitions[0].error_code)


@pytest.mark.requirement("R-05", "R-30")
@pytest.mark.parametrize(
    ("minutes", "least", "most"),
    [(45, 44 * 60_000, 45 * 60_000), (120, HOUR_MS, HOUR_MS), (24 * 60, HOUR_MS, HOUR_MS)],
)
def test_the_sooner_end_is_told(cluster: Cluster, minutes: int, least: int, most: int) -> None:
    with FramePeer(port_of(cluster, LONG)) as peer:
        answer = show(peer, minutes * 60)
        assert answer.error_code == ErrorCode.NONE
        assert least <= answer.session_lifetime_ms <= most
        assert served(peer)


@pytest.mark.requirement("H-36", "H-40")
@pytest.mark.parametrize("ago_s", [1, SKEW_S - 10])
def test_a_token_past_its_end_begins_no_session(cluster: Cluster, ago_s: int) -> None:
    # Within the skew that is allowed: the token is good, but there is nothing left of it.
    with FramePeer(port_of(cluster, LONG)) as peer:
        answer = show(peer, -ago_s)
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert answer.session_lifetime_ms == 0
        assert "past their end" in answer.error_message
        assert peer.closed()


@pytest.mark.requirement("H-40")
def test_a_token_near_its_end_gives_a_short_session_and_no_negative_one(cluster: Cluster, clock: StandingClock) -> None:
    before = killed(cluster)
    with FramePeer(port_of(cluster, LONG)) as peer:
        answer = show(peer, 60)
        assert answer.error_code == ErrorCode.NONE
        assert 0 < answer.session_lifetime_ms <= 60_000
        clock.pass_over(60_000)
        assert show(peer, 600).error_code == ErrorCode.NONE
        assert served(peer)
    assert killed(cluster) == before


@pytest.mark.requirement("R-03")
def test_with_0_a_token_s_end_is_not_the_session_s(cluster: Cluster, clock: StandingClock) -> None:
    before = killed(cluster)
    with FramePeer(port_of(cluster, SHORT)) as peer:
        answer = show(peer, 60)
        assert (answer.error_code, answer.session_lifetime_ms) == (ErrorCode.NONE, 0)
        clock.pass_over(60_000)
        assert served(peer)
    assert killed(cluster) == before


@pytest.mark.requirement("R-16")
def test_the_newest_token_is_what_decisions_go_by(cluster: Cluster, clock: StandingClock) -> None:
    for topic in ("red-one", "blue-one"):
        cluster.create_topic(topic)
    refused = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    with FramePeer(port_of(cluster, LONG)) as peer:
        life_ms = HOUR_MS
        for tenant in ("red", "blue", "red"):
            answer = show(peer, 7200, tenant=tenant)
            assert (answer.error_code, answer.session_lifetime_ms) == (ErrorCode.NONE, life_ms), answer.error_message
            seen = {topic: log_end(peer, topic) for topic in ("red-one", "blue-one")}
            assert seen == {f"{one}-one": 0 if one == tenant else refused for one in ("red", "blue")}
            clock.move(1000)  # a node takes one renewal a second
