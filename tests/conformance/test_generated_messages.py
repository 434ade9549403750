"""The modules that are generated are those that the generator gives for the released jars."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from tests.peers.maven import kafka_classpath, old_clients_jar

ROOT = Path(__file__).resolve().parents[2]
WIRE = ROOT / "src" / "barnabas" / "wire"


@pytest.mark.peer
def test_generated_modules_are_not_stale() -> None:
    spec = importlib.util.spec_from_file_location("generate_messages", ROOT / "tools" / "generate_messages.py")
    assert spec is not None
    assert spec.loader is not None
    generator = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = generator  # dataclasses look their module up
    spec.loader.exec_module(generator)
    new_jars = Path(kafka_classpath().removesuffix("/*"))
    files: dict[str, str] = generator.generate(new_jars, old_clients_jar().parent)
    stale = [path for path, source in files.items() if (WIRE / path).read_text() != source]
    assert stale == [], "run `make messages`"
    left_over = {
        f"{folder}/{path.name}" for folder in ("messages", "records") for path in (WIRE / folder).glob("[a-z]*.py")
    } - files.keys()
    assert left_over == set(), "run `make messages`"
