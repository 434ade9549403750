"""Write the message modules anew: fetch Kafka's jars, then run the generator on them (`make messages`)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.peers.maven import kafka_classpath, old_clients_jar

if __name__ == "__main__":
    jars = kafka_classpath().removesuffix("/*")
    generator = Path(__file__).with_name("generate_messages.py")
    subprocess.run(
        [sys.executable, str(generator), "--jars", jars, "--previous", str(old_clients_jar().parent)], check=True
    )
