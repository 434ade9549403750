"""librdkafka at full speed: its C library, as bundled in the confluent-kafka wheel, called in batches through ctypes.

confluent-kafka's own calls cost more Python a record than the brokers that are measured.
"""

from __future__ import annotations

import ctypes
import time
from collections import deque
from collections.abc import Mapping, Sequence
from ctypes import c_char_p, c_int, c_int32, c_int64, c_size_t, c_ssize_t, c_void_p
from dataclasses import dataclass
from importlib.metadata import files
from itertools import cycle
from pathlib import Path
from typing import Final

PRODUCER: Final = 0
CONSUMER: Final = 1
_ANY_PARTITION: Final = -1
BLOCK: Final = 4
_BEGINNING: Final = -2
_CHUNK: Final = 10_000


class LibrdkafkaError(Exception):
    """A load did not run to its end."""


class Message(ctypes.Structure):
    """`rd_kafka_message_t`."""

    _fields_ = (
        ("err", c_int),
        ("rkt", c_void_p),
        ("partition", c_int32),
        ("payload", c_void_p),
        ("len", c_size_t),
        ("key", c_void_p),
        ("key_len", c_size_t),
        ("offset", c_int64),
        ("private", c_void_p),
    )


_DELIVERED: Final = ctypes.CFUNCTYPE(None, c_void_p, ctypes.POINTER(Message), c_void_p)


def _load() -> ctypes.CDLL:
    bundled = [f for f in files("confluent-kafka") or () if f.name.startswith("librdkafka-")]
    if not bundled:
        raise LibrdkafkaError("the confluent-kafka wheel for this platform bundles no librdkafka")
    lib = ctypes.CDLL(str(Path(str(bundled[0].locate()))))
    for name, result, arguments in (
        ("rd_kafka_version_str", c_char_p, ()),
        ("rd_kafka_conf_new", c_void_p, ()),
        ("rd_kafka_conf_set", c_int, (c_void_p, c_char_p, c_char_p, c_char_p, c_size_t)),
        ("rd_kafka_conf_set_dr_msg_cb", None, (c_void_p, _DELIVERED)),
        ("rd_kafka_new", c_void_p, (c_int, c_void_p, c_char_p, c_size_t)),
        ("rd_kafka_topic_new", c_void_p, (c_void_p, c_char_p, c_void_p)),
        ("rd_kafka_topic_destroy", None, (c_void_p,)),
        ("rd_kafka_produce_batch", c_int, (c_void_p, c_int32, c_int, c_void_p, c_int)),
        ("rd_kafka_poll", c_int, (c_void_p, c_int)),
        ("rd_kafka_flush", c_int, (c_void_p, c_int)),
        ("rd_kafka_outq_len", c_int, (c_void_p,)),
        ("rd_kafka_destroy", None, (c_void_p,)),
        ("rd_kafka_queue_new", c_void_p, (c_void_p,)),
        ("rd_kafka_queue_destroy", None, (c_void_p,)),
        ("rd_kafka_consume_start_queue", c_int, (c_void_p, c_int32, c_int64, c_void_p)),
        ("rd_kafka_consume_stop", c_int, (c_void_p, c_int32)),
        ("rd_kafka_consume_batch_queue", c_ssize_t, (c_void_p, c_int, c_void_p, c_size_t)),
        ("rd_kafka_init_transactions", c_void_p, (c_void_p, c_int)),
        ("rd_kafka_begin_transaction", c_void_p, (c_void_p,)),
        ("rd_kafka_commit_transaction", c_void_p, (c_void_p, c_int)),
        ("rd_kafka_abort_transaction", c_void_p, (c_void_p, c_int)),
        ("rd_kafka_error_string", c_char_p, (c_void_p,)),
        ("rd_kafka_error_destroy", None, (c_void_p,)),
    ):
        function = getattr(lib, name)
        function.restype = result
        function.argtypes = arguments
    return lib


@dataclass(frozen=True, slots=True)
class Rate:
    """How much went through in how long."""

    records: int
    payload_bytes: int
    seconds: float

    @property
    def records_per_second(self) -> float:
        """Give records per second."""
        return self.records / self.seconds

    @property
    def mb_per_second(self) -> float:
        """Give payload megabytes (10^6) per second."""
        return self.payload_bytes / self.seconds / 1e6


class Librdkafka:
    """The library; one object is enough for any number of loads."""

    def __init__(self) -> None:
        self.lib = _load()
        # Without letting go of the interpreter's lock: a record is freed in less time than that takes.
        self._destroy = ctypes.PyDLL(self.lib._name).rd_kafka_message_destroy
        self._destroy.restype = None
        self._destroy.argtypes = (c_void_p,)
        self.version = self.lib.rd_kafka_version_str().decode()

    def produce(
        self,
        config: Mapping[str, str],
        topic: str,
        *,
        records: int,
        size: int,
        limit_s: float,
        acks: str = "all",
        values: Sequence[bytes] = (),
        first: int = 0,
    ) -> Rate:
        """Send `records` records of `size` bytes to random partitions, all acked; stop early after `limit_s`.

        values: what is sent in turn, each of `size` bytes; always the same unless given. first: so many more, some
        hundred at most, are acknowledged before the clock starts, so that connecting and asking for a producer's id
        are not counted.
        """
        lib = self.lib
        failed = [0]

        def note(_handle: object, message: ctypes._Pointer[Message], _opaque: object) -> None:
            failed[0] = message.contents.err

        on_failure = _DELIVERED(note)  # kept alive for as long as the library may call it

        settings = {
            "acks": acks,
            "queue.buffering.max.messages": "1000000",
            "queue.buffering.max.kbytes": "262144",
            "delivery.report.only.error": "true",
            **config,
        }
        handle = self.client(PRODUCER, settings, on_failure)
        topic_handle = lib.rd_kafka_topic_new(handle, topic.encode(), None)
        texts = values or [bytes(i * 37 % 251 for i in range(size))]
        payloads = [ctypes.create_string_buffer(text, size) for text in texts]
        batch = (Message * _CHUNK)()
        for message, payload in zip(batch, cycle(payloads), strict=False):
            message.payload = ctypes.addressof(payload)
            message.len = size
        if first:
            lib.rd_kafka_produce_batch(topic_handle, _ANY_PARTITION, BLOCK, batch, first)
            lib.rd_kafka_flush(handle, 60_000)
        sent = 0
        begin = time.perf_counter()
        while sent < records and time.perf_counter() - begin < limit_s and not failed[0]:
            wanted = min(_CHUNK, records - sent)
            sent += lib.rd_kafka_produce_batch(topic_handle, _ANY_PARTITION, BLOCK, batch, wanted)
            lib.rd_kafka_poll(handle, 0)
        lib.rd_kafka_flush(handle, 60_000)
        seconds = time.perf_counter() - begin
        left = lib.rd_kafka_outq_len(handle)
        lib.rd_kafka_topic_destroy(topic_handle)
        lib.rd_kafka_destroy(handle)
        if left or failed[0]:
            raise LibrdkafkaError(f"producing to {topic}: {left} records not delivered, last error {failed[0]}")
        return Rate(sent, sent * size, seconds)

    def fetch(
        self,
        config: Mapping[str, str],
        topic: str,
        *,
        partitions: int,
        records: int,
        size: int,
        limit_s: float,
        again: bool = False,
    ) -> Rate:
        """Read `records` records from the beginning of all partitions, stop early after `limit_s`.

        The clock starts at the first record, so that looking up leaders is not counted. again: read them again and
        again, on the same connections, until the time is over.
        """
        lib = self.lib
        settings = {
            "queued.max.messages.kbytes": "262144",
            "queued.min.messages": "1000000",
            "fetch.message.max.bytes": "10485760",
            "fetch.max.bytes": "52428800",
            **config,
        }
        handle = self.client(CONSUMER, settings, None)
        topic_handle = lib.rd_kafka_topic_new(handle, topic.encode(), None)
        queue = lib.rd_kafka_queue_new(handle)
        got, seconds = 0, 0.0
        try:
            while True:
                for partition in range(partitions):
                    lib.rd_kafka_consume_start_queue(topic_handle, partition, _BEGINNING, queue)
                try:
                    more, took = self._drain(queue, records, limit_s - seconds)
                finally:
                    for partition in range(partitions):
                        lib.rd_kafka_consume_stop(topic_handle, partition)
                got, seconds = got + more, seconds + took
                if not again or seconds >= limit_s:
                    break
        finally:
            lib.rd_kafka_queue_destroy(queue)
            lib.rd_kafka_topic_destroy(topic_handle)
            lib.rd_kafka_destroy(handle)
        return Rate(got, got * size, seconds)

    def _drain(self, queue: int, records: int, limit_s: float) -> tuple[int, float]:
        lib = self.lib
        messages = (c_void_p * _CHUNK)()
        got, begin, first = 0, 0.0, time.perf_counter()
        while got < records:
            count = lib.rd_kafka_consume_batch_queue(queue, 1000, messages, _CHUNK)
            now = time.perf_counter()
            if not got and count > 0:
                begin = now
            if count > 0:
                deque(map(self._destroy, messages[:count]), maxlen=0)
                got += count
            if now - (begin or first) > limit_s:
                break
        if not got:
            raise LibrdkafkaError("no record came within the time")
        return got, time.perf_counter() - begin

    def client(self, kind: int, settings: Mapping[str, str], on_failure: object = None) -> int:
        """Give the handle of a new client, PRODUCER or CONSUMER. on_failure: called for records not delivered."""
        lib = self.lib
        conf = lib.rd_kafka_conf_new()
        error = ctypes.create_string_buffer(512)
        for name, value in settings.items():
            if lib.rd_kafka_conf_set(conf, name.encode(), value.encode(), error, len(error)):
                raise LibrdkafkaError(error.value.decode())
        if on_failure is not None:
            lib.rd_kafka_conf_set_dr_msg_cb(conf, on_failure)
        handle = lib.rd_kafka_new(kind, conf, error, len(error))
        if not handle:
            raise LibrdkafkaError(error.value.decode())
        return int(handle)
