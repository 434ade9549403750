"""The part of a consumer's embedded protocol that a coordinator reads: the subscribed topics (KIP-62)."""

from __future__ import annotations

import struct
from collections.abc import Iterable

from barnabas.wire.errors import ProtocolError
from barnabas.wire.message import decode_from
from barnabas.wire.records.consumer_protocol_subscription import ConsumerProtocolSubscription


def topics_of(metadata: Iterable[bytes]) -> frozenset[str] | None:
    """Give the union of the topics in some members' metadata, or None when one of them cannot be read.

    Each version of the subscription begins with version 0's fields, so all are read as version 0.
    """
    topics: set[str] = set()
    try:
        for one in metadata:
            (version,) = struct.unpack_from(">h", one, 0)
            if version < 0:
                return None
            subscription, _ = decode_from(ConsumerProtocolSubscription, 0, one, 2)
            topics.update(subscription.topics)
    except (ProtocolError, struct.error):
        return None
    return frozenset(topics)
