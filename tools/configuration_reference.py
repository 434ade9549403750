"""Write docs/configuration.md and docs/connect_configuration.md from the tables of keys.

So they cannot say anything else than the code.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from barnabas.connect import config_keys as connect_keys
from barnabas.connect.accepted_keys import ACCEPTED
from barnabas.model.config import MASKED, REQUIRED, ConfigKey, ConfigType
from barnabas.server.config_keys import ACCEPTED as ACCEPTED_BY_NODES
from barnabas.server.config_keys import SECTIONS
from barnabas.storage.log_config import TOPIC_CONFIG

_DOCS: Final = Path(__file__).resolve().parent.parent / "docs"
HEAD: Final = """# Configuration reference

Written by `make docs` from the tables in the code. Keys, types and defaults are Apache Kafka 4.3's, those of ZooKeeper
mode 3.9's. A key for one listener is written `listener.name.<listener>.<key>`, for one SASL mechanism of it
`listener.name.<listener>.<mechanism>.<key>`; the most specific one wins. A key that nobody knows is reported at the
start, with the nearest one that exists.
"""
CONNECT_HEAD: Final = """# Configuration reference of Connect workers

Written by `make docs` from the tables in the code. Keys, types and defaults are Apache Kafka 4.3's, those that begin
with `barnabas.` apart. The worker's own connections take the keys of the last section. Connectors' producers and
consumers take theirs with `producer.` and `consumer.` before them, security too; their admin clients take the worker's,
and those with `admin.` before them on top. What a connector itself may change, its own settings say.
`key.converter.*`, `value.converter.*` and `header.converter.*` are the converters' settings, `config.storage.*`,
`offset.storage.*` and `status.storage.*` those of internal topics that are made, `listeners.https.ssl.*` those of
https listeners, and `barnabas.spark.conf.*` those of the Spark session. A key that nobody knows is reported at the
start, with the nearest one that exists.

`${file:PATH:key}`, `${dir:PATH:name}` and `${env:NAME}` stand for a key of a properties file, a file of a folder and a
variable of the environment. Here they always do; in the configurations of connectors, only by the providers that
`config.providers` names, within their `config.providers.NAME.param.allowed.paths` and `.param.allowlist.pattern`.

What travels between workers, between workers and brokers, and what the config topic holds, session keys among it, is
as safe as you make it: serve the REST API by https, connect to the brokers by SASL_SSL, and let nobody but the workers
read and write the three topics. A signature proves that a request comes from a worker of the group; it hides nothing.
"""


def page() -> str:
    """Give the whole reference of nodes."""
    parts = [HEAD]
    for title, keys in {**SECTIONS, "Topic configuration": tuple(TOPIC_CONFIG)}.items():
        parts.append(f"\n## {title}\n\n| key | type | default | changes | what it does |\n|---|---|---|---|---|\n")
        parts += [row(key) for key in keys if key.doc and not key.internal]
    parts.append("\n## Kafka's keys that are accepted without effect\n\nA file that holds them still serves both.\n\n")
    parts.append(", ".join(f"`{name}`" for name in sorted(names(ACCEPTED_BY_NODES))) + "\n")
    return "".join(parts)


def connect_page() -> str:
    """Give the whole reference of Connect's workers."""
    parts = [CONNECT_HEAD]
    for title, keys in connect_keys.SECTIONS.items():
        parts.append(f"\n## {title}\n\n| key | type | default | what it does |\n|---|---|---|---|\n")
        parts += [row(key, changes=False) for key in keys]
    parts.append("\n## Kafka's keys that are accepted without effect\n\nA file that holds them still serves both.\n\n")
    parts.append(", ".join(f"`{name}`" for name in sorted(names(ACCEPTED))) + "\n")
    return "".join(parts)


def names(keys: Iterable[ConfigKey]) -> list[str]:
    """Give the names of the keys that an operator may set."""
    return [key.name for key in keys if not key.internal]


def row(key: ConfigKey, *, changes: bool = True) -> str:
    """Give one line of a table. changes: say when the key may change."""
    if key.default is REQUIRED:
        default = "required"
    elif key.default is None:
        default = "not set"
    elif key.type is ConfigType.PASSWORD:
        default = MASKED
    else:
        default = f"`{key.format(key.default)}`" if key.format(key.default) else "empty"
    doc = key.doc.replace("|", "\\|")
    cells = [f"`{key.name}`", key.type.name.lower(), default, *([str(key.dynamic)] if changes else []), doc]
    return f"| {' | '.join(cells)} |\n"


PAGES: Final = {_DOCS / "configuration.md": page, _DOCS / "connect_configuration.md": connect_page}
"""Each file with what it says."""


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit(any(file.read_text(encoding="utf-8") != text() for file, text in PAGES.items()))
    for target, whole in PAGES.items():
        target.write_text(whole(), encoding="utf-8")
