"""Write docs/configuration.md from the tables of keys, so that it cannot say anything else than the code."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from barnabas.model.config import MASKED, REQUIRED, ConfigKey, ConfigType
from barnabas.server.config_keys import (
    accepted,
    controller,
    general,
    groups,
    logins,
    logs,
    quorum,
    quotas,
    replication,
    security,
    transactions,
)
from barnabas.storage.log_config import TOPIC_CONFIG

TARGET: Final = Path(__file__).resolve().parent.parent / "docs" / "configuration.md"
SECTIONS: Final = (
    ("Roles, listeners, sockets and topics", general.KEYS),
    ("Security", security.KEYS),
    ("Logins", logins.KEYS),
    ("Data on disk", logs.KEYS),
    ("Groups", groups.KEYS),
    ("Metadata quorum", quorum.KEYS),
    ("What the active controller does by itself", controller.KEYS),
    ("Replication", replication.KEYS),
    ("Transactions", transactions.KEYS),
    ("Quotas", quotas.KEYS),
    ("Topic configuration", tuple(TOPIC_CONFIG)),
)
HEAD: Final = """# Configuration reference

Written by `make docs` from the tables in the code. Keys, types and defaults are Apache Kafka 4.3's. A key for one
listener is written `listener.name.<listener>.<key>`, for one SASL mechanism of it
`listener.name.<listener>.<mechanism>.<key>`; the most specific one wins. A key that nobody knows is reported at the
start, with the nearest one that exists.
"""


def page() -> str:
    """Give the whole text."""
    parts = [HEAD]
    for title, keys in SECTIONS:
        parts.append(f"\n## {title}\n\n| key | type | default | changes | what it does |\n|---|---|---|---|---|\n")
        parts += [row(key) for key in keys if key.doc and not key.internal]
    parts.append("\n## Kafka's keys that are accepted without effect\n\nA file that holds them still serves both.\n\n")
    parts.append(", ".join(f"`{name}`" for name in sorted(names(accepted.KEYS))) + "\n")
    return "".join(parts)


def names(keys: Iterable[ConfigKey]) -> list[str]:
    """Give the names of the keys that an operator may set."""
    return [key.name for key in keys if not key.internal]


def row(key: ConfigKey) -> str:
    """Give one line of a table."""
    if key.default is REQUIRED:
        default = "required"
    elif key.default is None:
        default = "not set"
    elif key.type is ConfigType.PASSWORD:
        default = MASKED
    else:
        default = f"`{key.format(key.default)}`" if key.format(key.default) else "empty"
    doc = key.doc.replace("|", "\\|")
    return f"| `{key.name}` | {key.type.name.lower()} | {default} | {key.dynamic} | {doc} |\n"


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit(TARGET.read_text(encoding="utf-8") != page())
    TARGET.write_text(page(), encoding="utf-8")
