"""python by_kafka_python.py PYTHON_FILE TOPIC"""

import json
import logging
import os
import sys
import time

from kafka import KafkaProducer


def failed(error: BaseException) -> None:
    print(f"not delivered: {error!r}", file=sys.stderr, flush=True)
    os._exit(1)  # it is called in a thread of the client's


def main(path: str, topic: str) -> None:
    logging.basicConfig(level=logging.WARNING)
    with open(path, encoding="utf-8") as file:
        producer = KafkaProducer(**json.load(file), acks="all", max_block_ms=60_000)
    number = 0
    while True:
        producer.send(topic, b"%d" % number).add_errback(failed)
        number += 1
        time.sleep(0.02)


if __name__ == "__main__":
    main(*sys.argv[1:])
