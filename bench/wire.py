"""How long the codec takes; prints JSON. `python bench/wire.py`

Budgets (design, D3): a Produce request of 3 partitions decoded in 8 us, a Metadata response of 100 partitions
encoded in 150 us.
"""

from __future__ import annotations

import json
import timeit
from collections.abc import Callable

from barnabas.model.uuid import Uuid
from barnabas.wire.header import decode_request_header
from barnabas.wire.message import decode, encode
from barnabas.wire.messages.fetch import FetchableTopicResponse, FetchPartition, FetchRequest, FetchResponse, FetchTopic
from barnabas.wire.messages.fetch import PartitionData as FetchedPartition
from barnabas.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from barnabas.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from barnabas.wire.messages.request_header import RequestHeader
from barnabas.wire.record_batch import Compression, Record, decode_columns, encode_batch, read_header

TOPIC_ID = Uuid(bytes(range(16)))
BUDGETS_US = {"decode produce request v13, 3 partitions": 8.0, "encode metadata response v13, 100 partitions": 150.0}


def cases() -> dict[str, Callable[[], object]]:
    """Give what is measured, by name."""
    batch = bytes(16384)
    produce = {
        v: encode(
            ProduceRequest(
                acks=-1,
                timeout_ms=30000,
                topic_data=[
                    TopicProduceData(
                        name="" if v > 12 else "orders",
                        topic_id=TOPIC_ID,
                        partition_data=[PartitionProduceData(index=i, records=batch) for i in range(3)],
                    )
                ],
            ),
            v,
        )
        for v in (9, 13)
    }
    produced = ProduceResponse(
        responses=[
            TopicProduceResponse(topic_id=TOPIC_ID, partition_responses=[PartitionProduceResponse(index=i)])
            for i in range(3)
        ]
    )
    partitions = [
        MetadataResponsePartition(
            partition_index=i, leader_id=1, leader_epoch=3, replica_nodes=[1, 2, 3], isr_nodes=[1, 2, 3]
        )
        for i in range(100)
    ]
    metadata = MetadataResponse(
        cluster_id="abc",
        brokers=[MetadataResponseBroker(node_id=i, host="localhost", port=9092) for i in range(3)],
        topics=[MetadataResponseTopic(name="orders", topic_id=TOPIC_ID, partitions=partitions)],
    )
    metadata_bytes = encode(metadata, 13)
    fetch = FetchRequest(topics=[FetchTopic(topic_id=TOPIC_ID, partitions=[FetchPartition() for _ in range(10)])])
    fetch_bytes = encode(fetch, 17)
    fetched = FetchResponse(
        responses=[
            FetchableTopicResponse(topic_id=TOPIC_ID, partitions=[FetchedPartition(records=batch) for _ in range(10)])
        ]
    )
    header = encode(RequestHeader(request_api_key=0, request_api_version=13, client_id="producer-1"), 2) + produce[13]
    return {
        "decode request header v2": lambda: decode_request_header(header),
        "decode produce request v9, 3 partitions": lambda: decode(ProduceRequest, 9, produce[9]),
        "decode produce request v13, 3 partitions": lambda: decode(ProduceRequest, 13, produce[13]),
        "encode produce response v13, 3 partitions": lambda: encode(produced, 13),
        "encode metadata response v13, 100 partitions": lambda: encode(metadata, 13),
        "decode metadata response v13, 100 partitions": lambda: decode(MetadataResponse, 13, metadata_bytes),
        "decode fetch request v17, 10 partitions": lambda: decode(FetchRequest, 17, fetch_bytes),
        "encode fetch response v17, 10 partitions": lambda: encode(fetched, 17),
    }


def microseconds(work: Callable[[], object]) -> float:
    """Give the best mean of five runs."""
    timer = timeit.Timer(work)
    number, _ = timer.autorange()
    return round(min(timer.repeat(5, max(1, number // 4))) / max(1, number // 4) * 1e6, 2)


def records_per_second() -> dict[str, dict[str, int]]:
    """Give how many records of 1 KB and of 100 bytes a second are read into columns and written, codec by codec."""
    out: dict[str, dict[str, int]] = {}
    for size in (100, 1024):
        text = (b"departure,carrier,delay,%d;" * (size // 27 + 1))[:size]
        records = [Record(i, 1_700_000_000_000 + i, b"key-%d" % i, text) for i in range(1000)]
        for codec in Compression:
            data = encode_batch(records, compression=codec)
            out[f"{size} bytes, {codec.name.lower()}"] = {
                "decode": int(1000 / microseconds(lambda data=data: decode_columns(data)) * 1e6),  # type: ignore[misc]
                "encode": int(
                    1000
                    / microseconds(lambda codec=codec, records=records: encode_batch(records, compression=codec))  # type: ignore[misc]
                    * 1e6
                ),
            }
    return out


def measure() -> dict[str, float]:
    """Give the microseconds of each case."""
    times = {name: microseconds(work) for name, work in cases().items()}
    batch = encode_batch([Record(0, 0, None, b"x" * 1024)])
    times["read batch header"] = microseconds(lambda: read_header(batch))
    return times


def main() -> None:
    """Measure and print."""
    times = measure()
    report = {
        "microseconds": times,
        "records_per_second": records_per_second(),
        "within_budget": {name: times[name] <= budget for name, budget in BUDGETS_US.items()},
    }
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
