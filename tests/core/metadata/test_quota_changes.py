"""AlterClientQuotas: which entities and values there are."""

from __future__ import annotations

import pytest

from barnabas.core.metadata.image import MetadataImage
from barnabas.core.metadata.quota_changes import Alteration, alter_client_quotas
from barnabas.core.metadata.quotas import ClientQuotasImage, entity_of
from barnabas.core.metadata.runs import replay
from barnabas.wire.errors import ErrorCode

ALICE = (("user", "alice"),)


def altered(
    image: ClientQuotasImage, *alterations: Alteration, validate_only: bool = False
) -> tuple[ClientQuotasImage, list[bool]]:
    decision = alter_client_quotas(image, alterations, lambda name: name == "localhost", validate_only=validate_only)
    for error in decision.response:
        assert error is None or error.code is ErrorCode.INVALID_REQUEST
    return replay(MetadataImage(client_quotas=image), decision.records).client_quotas, [
        error is None for error in decision.response
    ]


def test_values_are_set_changed_and_removed() -> None:
    image, _ = altered(
        ClientQuotasImage(), Alteration(ALICE, (("producer_byte_rate", 5.0), ("request_percentage", 0.5)))
    )
    image, _ = altered(image, Alteration(ALICE, (("producer_byte_rate", 6.0), ("consumer_byte_rate", None))))
    alice = entity_of({"user": "alice"})
    assert dict(image.get(alice)) == {"producer_byte_rate": 6.0, "request_percentage": 0.5}
    image, _ = altered(image, Alteration(ALICE, (("producer_byte_rate", None), ("request_percentage", None))))
    assert alice not in image.by_entity


def test_parts_may_come_in_any_order_and_null_is_the_default_of_all() -> None:
    one = Alteration((("user", None), ("client-id", "c")), (("consumer_byte_rate", 1.0),))
    other = Alteration((("client-id", "c"), ("user", None)), (("consumer_byte_rate", 2.0),))
    image, _ = altered(ClientQuotasImage(), one)
    image, _ = altered(image, other)
    assert len(image.by_entity) == 1


def test_nothing_is_written_when_only_asked_or_when_nothing_changes() -> None:
    wanted = Alteration(ALICE, (("producer_byte_rate", 5.0),))
    image, fine = altered(ClientQuotasImage(), wanted, validate_only=True)
    assert fine == [True]
    assert not image.by_entity
    image, _ = altered(image, wanted)
    assert alter_client_quotas(image, [wanted], lambda name: False).records == ()


@pytest.mark.parametrize(
    ("entity", "op"),
    [
        ((), ("producer_byte_rate", 1.0)),
        ((("user", ""),), ("producer_byte_rate", 1.0)),
        ((("group", "g"),), ("producer_byte_rate", 1.0)),
        ((("user", "a"), ("user", "b")), ("producer_byte_rate", 1.0)),
        ((("user", "a"), ("ip", "1.2.3.4")), ("producer_byte_rate", 1.0)),
        ((("ip", "nowhere"),), ("connection_creation_rate", 1.0)),
        ((("ip", "1.2.3.4"),), ("producer_byte_rate", 1.0)),
        ((("ip", "1.2.3.4"),), ("connection_creation_rate", 2.0**31)),
        (ALICE, ("connection_creation_rate", 1.0)),
        (ALICE, ("nonsense", 1.0)),
        (ALICE, ("producer_byte_rate", 0.0)),
        (ALICE, ("producer_byte_rate", -1.0)),
        (ALICE, ("producer_byte_rate", 1.5)),
        (ALICE, ("producer_byte_rate", 1e30)),
        (ALICE, ("producer_byte_rate", float("nan"))),
    ],
)
def test_what_is_wrong_is_refused_alone(entity: tuple[tuple[str, str | None], ...], op: tuple[str, float]) -> None:
    bob = Alteration((("user", "bob"),), (("producer_byte_rate", 1.0),))
    image, fine = altered(ClientQuotasImage(), Alteration(entity, (op,)), bob)
    assert fine == [False, True]
    assert set(image.by_entity) == {entity_of({"user": "bob"})}


def test_hosts_and_addresses_have_connection_rates() -> None:
    for name in ("localhost", "::1", "10.0.0.1", None):
        _, fine = altered(ClientQuotasImage(), Alteration((("ip", name),), (("connection_creation_rate", 1.0),)))
        assert fine == [True]


def test_an_entity_or_a_key_that_comes_twice_is_refused() -> None:
    once = Alteration(ALICE, (("producer_byte_rate", 1.0),))
    _, fine = altered(ClientQuotasImage(), once, once)
    assert fine == [True, False]
    _, fine = altered(ClientQuotasImage(), Alteration(ALICE, (once.ops[0], once.ops[0])))
    assert fine == [False]
