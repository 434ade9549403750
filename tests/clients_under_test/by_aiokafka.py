"""python by_aiokafka.py PYTHON_FILE TOPIC"""

import asyncio
import json
import logging
import ssl
import sys
from pathlib import Path

from aiokafka import AIOKafkaProducer


async def main(path: str, topic: str) -> None:
    logging.basicConfig(level=logging.WARNING)
    settings = json.loads(Path(path).read_text(encoding="utf-8"))
    authority = settings.pop("ssl_cafile", None)
    if authority is not None:
        settings["ssl_context"] = ssl.create_default_context(cafile=authority)
    number = 0
    async with AIOKafkaProducer(**settings, enable_idempotence=True) as producer:
        while True:
            told = await producer.send(topic, b"%d" % number)
            told.add_done_callback(check)
            number += 1
            await asyncio.sleep(0.02)


def check(told: "asyncio.Future[object]") -> None:
    if not told.cancelled() and told.exception() is not None:
        sys.exit(f"not delivered: {told.exception()!r}")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
