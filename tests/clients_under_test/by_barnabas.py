"""python by_barnabas.py JAVA_FILE TOPIC"""

import asyncio
import os
import sys
from pathlib import Path

from barnabas.client.config import ClientConfig
from barnabas.client.producer import Producer
from barnabas.model.config import parse_properties


def failed(_where: object, _records: object, error: Exception) -> None:
    print(f"not delivered: {error!r}", file=sys.stderr, flush=True)
    os._exit(1)


async def main(path: str, topic: str) -> None:
    settings = parse_properties(Path(path).read_text(encoding="utf-8"))
    number = 0
    async with Producer(ClientConfig.from_properties(settings), on_failure=failed) as producer:
        while True:
            await producer.send(topic, b"%d" % number)
            number += 1
            await asyncio.sleep(0.02)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
