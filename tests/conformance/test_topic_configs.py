"""Our table of topic configuration keys against the one in Kafka's own jar."""

from __future__ import annotations

import html
import re

import pytest

from barnabas.storage.log_config import TOPIC_CONFIG, TOPIC_CONFIG_SYNONYMS
from tests.peers.tools import run_tool

pytestmark = pytest.mark.peer


def test_names_types_defaults_and_synonyms_are_kafkas() -> None:
    page = run_tool("org.apache.kafka.storage.internals.log.LogConfig")
    theirs = {}
    for item in page.split("<li>")[1:]:
        name = re.search(r'<a id="([^"]+)">', item)
        assert name is not None
        rows = dict(re.findall(r"<tr><th>([^:<]+):</th><td>(.*?)</td></tr>", item))
        default = html.unescape(rows["Default"]).split(" (")[0].strip('"')
        theirs[name[1]] = (rows["Type"], default, rows["Server Default Property"], rows["Importance"])
    ours = {
        key.name: (
            key.type.name.lower(),
            key.format(key.default),
            TOPIC_CONFIG_SYNONYMS[key.name][0].name if key.name in TOPIC_CONFIG_SYNONYMS else "null",
            str(key.importance),
        )
        for key in TOPIC_CONFIG
        if not key.internal
    }
    assert ours == theirs
