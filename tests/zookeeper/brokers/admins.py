"""librdkafka's admin client, as operators' programs use it: it goes to the controller, wherever it begins."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

LIMIT_S: Final = 90.0
_TRY: Final = {"socket.timeout.ms": 5_000}
"""So long librdkafka may look for a controller that has gone: a new client finds the next at once."""
_ON_THE_MOVE: Final = frozenset({
    KafkaError.NOT_CONTROLLER,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError._TRANSPORT,
    KafkaError._TIMED_OUT,
    KafkaError._ALL_BROKERS_DOWN,
})  # fmt: skip
Call = Callable[[AdminClient], Mapping[Any, "Future[Any]"] | Future[Any]]


def do(settings: dict[str, Any], call: Call, *done: int) -> None:
    """Ask for something, and again while the controller is on the move, which librdkafka leaves to its users.

    done: errors that say, from the second time on, that the first one was heard.
    """
    end, first = time.monotonic() + LIMIT_S, True
    while True:
        admin = AdminClient(settings | _TRY)  # a new one knows who the controller is now
        try:
            asked = call(admin)
            for future in [asked] if isinstance(asked, Future) else asked.values():
                future.result(LIMIT_S)
        except KafkaException as e:
            code = e.args[0].code()
            if code in done and not first:
                return
            if code not in _ON_THE_MOVE or time.monotonic() > end:
                raise
        else:
            return
        first = False
