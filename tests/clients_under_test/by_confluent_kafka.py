"""python by_confluent_kafka.py LIBRDKAFKA_FILE TOPIC"""

import sys
import time
from typing import Any

from confluent_kafka import Producer


def main(path: str, topic: str) -> None:
    with open(path, encoding="utf-8") as file:
        settings: dict[str, Any] = dict(line.strip().split("=", 1) for line in file if "=" in line)

    def told(error: Any, _: object) -> None:
        if error is not None:
            sys.exit(f"not delivered: {error}")

    def heard(error: Any) -> None:
        print(error, file=sys.stderr, flush=True)

    producer = Producer({**settings, "linger.ms": 0, "enable.idempotence": True, "error_cb": heard})
    number = 0
    while True:
        producer.produce(topic, b"%d" % number, on_delivery=told)
        number += 1
        producer.poll(0)
        time.sleep(0.02)


if __name__ == "__main__":
    main(*sys.argv[1:])
