"""Where the names of our measurements differ from Apache Kafka's, and why.

An item is `role domain:type:name{keys of tags}`, with `#attribute` where an MBean has all but that.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple


class Known(NamedTuple):
    """A known difference. items: a pattern that whole items match."""

    items: str
    reason: str


def matches(known: Known, item: str) -> bool:
    """Say whether an item is one of those."""
    return re.fullmatch(known.items, item) is not None


_NO_SHARE_GROUPS: Final = "share groups are not offered"
_NO_QUEUE: Final = "the loop that reads a request serves it, and sends the answer as soon as there is one"
_NO_CONVERSION: Final = "no format of records is ever converted, nor memory set aside for it"
_ONE_CONNECTION: Final = (
    "a broker reaches the controller over connections that all purposes share; those that other nodes open are seen at "
    "the listener that they come in by"
)
_OF_THE_JVM: Final = "a measurement of Kafka's own libraries of measurements"

MISSING: Final = (
    # --- what is not offered
    Known(r"broker kafka\.server:Share.*", _NO_SHARE_GROUPS),
    Known(r"broker kafka\.server:(Persister-channel|share-coordinator)-metrics:.*", _NO_SHARE_GROUPS),
    Known(r"broker kafka\.server:BrokerTopicMetrics:(Failed|Total)Share.*", _NO_SHARE_GROUPS),
    Known(
        r"broker kafka\.server:group-coordinator-metrics:\{.*\}#(consumer|share|streams)-group-.*",
        "groups of these protocols are not offered (KIP-848, KIP-932, KIP-1071)",
    ),
    Known(r"broker kafka\.server:DelayedRemoteListOffsetsMetrics:.*", "tiered storage is not offered (KIP-405)"),
    # --- what does not exist here
    Known(r".* kafka\.network:RequestChannel:Re(quest|sponse)QueueSize\{.*\}", _NO_QUEUE),
    Known(r".* kafka\.network:RequestMetrics:ResponseQueueTimeMs\{request\}", _NO_QUEUE),
    Known(r".* kafka\.network:RequestMetrics:(MessageConversionsTimeMs|TemporaryMemoryBytes)\{.*", _NO_CONVERSION),
    Known(r"broker kafka\.server:BrokerTopicMetrics:(Fetch|Produce)MessageConversionsPerSec\{\}", _NO_CONVERSION),
    Known(
        r".* kafka\.server:(Fetch|Produce|Request|ControllerMutation):\{\}",
        "a client over its quota is kept waiting by its own connection: there is no queue of throttled channels, and "
        "requests between brokers are not measured against a quota",
    ),
    Known(
        r".* kafka\.server:socket-server-metrics:.*#(io-.*|select-.*)",
        "there is no selector, and what libuv does is not measured",
    ),
    Known(
        r".* kafka\.server:socket-server-metrics:\{\}#MemoryPool.*",
        "how long queued.max.request.bytes was used up is not measured",
    ),
    Known(
        r".* kafka\.network:Acceptor:AcceptorBlockedPercent\{listener\}",
        "no acceptor waits for a network thread; one that waits for room (max.connections) says so in the log",
    ),
    Known(
        r"broker kafka\.server:(alter-partition|directory-assignments|forwarding|heartbeat)-metrics:.*", _ONE_CONNECTION
    ),
    Known(r"broker kafka\.server:(AddPartitionsManager|txn-marker)-channel-metrics:.*", _ONE_CONNECTION),
    Known(r"broker kafka\.server:replica-fetcher-metrics:.*", _ONE_CONNECTION),
    Known(r"controller kafka\.server:registration-metrics:.*", _ONE_CONNECTION),
    Known(r".* kafka\.server:raft-channel-metrics:.*", _ONE_CONNECTION),
    Known(
        r"broker kafka\.server:group-coordinator-metrics:\{\}#(background-|event-|batch-|thread-idle).*",
        "the coordinator has neither threads nor queues of its own",
    ),
    Known(
        r"broker kafka\.server:ReplicaAlterLogDirsManager:MinFetchRate\{clientId\}",
        "a replica is moved between directories by copying, not by fetch requests",
    ),
    Known(r"broker kafka\.utils:Throttler:cleaner-io\{\}", "log.cleaner.io.max.bytes.per.second has no effect here"),
    Known(
        r"controller kafka\.server:BrokerTopicMetrics:.*",
        "clients write to and read from brokers: on a controller Kafka shows these, and they stay 0",
    ),
    Known(
        r"controller kafka\.server:DelayedOperationPurgatory:.*",
        "a change of ACLs is not parked on a controller: its coroutine waits for the commit",
    ),
    Known(
        r"broker kafka\.server:broker-metadata-metrics:\{\}#metadata-apply-error-count",
        "metadata that cannot be applied ends the node, so that nobody could read the number",
    ),
    Known(r".* kafka\.server:(Kafka|Controller)Server:yammer-metrics-count\{\}", _OF_THE_JVM),
    Known(r".* kafka\.server:kafka-metrics-count:\{\}", _OF_THE_JVM),
    Known(r".* kafka\.server:app-info:\{(client-id)?\}", "says once more what the MBean with the tag id says"),
    Known(r".* kafka\.server:app-info:\{id\}#CommitId", "an installed package does not know its commit"),
    # --- what could be measured, and is not yet
    Known(r".* kafka\.server:plugins:\{class,config,role\}", "decisions of the authorizer are not counted (KIP-877)"),
)
"""What Kafka shows and we do not."""

ONLY_OURS: Final = (
    Known(
        r".* kafka\.server:socket-server-metrics:.*#successful-authentication-no-reauth-rate",
        "KIP-368's document has rate and total; Kafka shows the total only",
    ),
    Known(
        r".* kafka\.server:Authorizer:AclCount\{\}",
        "the name of KIP-801's document; Kafka shows acls-total-count among `plugins`",
    ),
    Known(r"broker kafka\.server:FollowerReplication:\{\}", "Kafka shows it from the first throttled byte on"),
    Known(
        r"broker kafka\.server:raft-metrics:\{\}#(number-of-observers|uncommitted-voter-change)",
        "Kafka shows it on the leader of the quorum; it is 0 everywhere else",
    ),
    Known(r"controller kafka\.server:ForwardingManager:\{\}", "a controller registers over the same way as a broker"),
)
"""What we show and Kafka does not."""

OF_THE_ACTIVE: Final = (
    r"controller kafka\.server:raft-metrics:\{\}#(number-of-observers|uncommitted-voter-change)",
    r"controller kafka\.controller:KafkaController:TimeSinceLastHeartbeatReceivedMs\{broker\}",
)
"""What Kafka's controllers show while they are active, and ours always: not compared, as either may be elected."""
