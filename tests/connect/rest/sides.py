"""A JVM worker and one of ours, asked the same; answers are compared without what must differ."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import quote

from barnabas.connect.worker import Worker
from tests.peers.connect import Answer, ask

PATIENCE_SECONDS: Final = 60.0
FOLDER: Final = "%FOLDER%"
"""Stands for a side's own folder, in requests and in answers."""
VERSION: Final = "%VERSION%"
"""Stands for the version of what a side ships, in requests."""
_CONVERTERS: Final = ".converter."
"""Converters' own settings come in no order that would mean anything."""
_WORDS: Final = frozenset({"documentation", "message", "version", "commit"})
"""Fields whose text is each software's own."""


class WorkerThread:
    """A worker of ours in a thread of its own, as long as the context lasts."""

    def __init__(self, life: AbstractAsyncContextManager[Worker]) -> None:
        self._life = life
        self._ready = threading.Event()
        self._done: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._failed: BaseException | None = None
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))
        self.url = ""

    def __enter__(self) -> Self:
        self._thread.start()
        self._ready.wait()
        if self._failed is not None:
            raise self._failed
        return self

    def __exit__(self, *_: object) -> None:
        if self._loop is not None and self._done is not None:
            self._loop.call_soon_threadsafe(self._done.set)
        self._thread.join()

    async def _run(self) -> None:
        self._loop, self._done = asyncio.get_running_loop(), asyncio.Event()
        try:
            async with self._life as worker:
                self.url = worker.url.rstrip("/")
                self._ready.set()
                await self._done.wait()
        except BaseException as e:
            self._failed = e
            raise
        finally:
            self._ready.set()


@dataclass(frozen=True)
class Said:
    """An answer, without what differs between any two workers."""

    status: int
    body: Any
    content_type: str
    location: str | None
    allow: frozenset[str] = frozenset()


@dataclass
class Side:
    """One worker. folder: where its connectors' files are."""

    name: str
    url: str
    folder: Path
    ours: bool

    @cached_property
    def version(self) -> str:
        """Give the version of its connectors."""
        listed = ask(f"{self.url}/connector-plugins").json
        return str(next(each["version"] for each in listed if each["class"].endswith(".FileStreamSinkConnector")))

    def ask(self, step: Step) -> Said:
        """Give the answer to a request of the table."""
        body: object = step.body
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).replace(FOLDER, str(self.folder)).replace(VERSION, self.version).encode()
        answer = self._settled(step, body)
        kind = next((v for k, v in answer.headers.items() if k.lower() == "content-type"), "")
        location = next((v for k, v in answer.headers.items() if k.lower() == "location"), None)
        if location is not None:
            location = location.removeprefix(self.url)
        text = answer.text.replace(str(self.folder), FOLDER).replace(self.url.removeprefix("http://"), "%WORKER%")
        try:
            said: Any = self._bare(json.loads(text), step) if text else None
        except ValueError:
            said = "no JSON"
        if step.status_only:
            return Said(answer.status, None, "", None)
        # A JVM worker's errors that do not come from its own code have JSON without saying so.
        return Said(answer.status, said, kind.partition(";")[0] if answer.status < 400 else "", location)

    def _settled(self, step: Step, body: object) -> Answer:
        """Ask again while the group shares its work out, as any client must."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            path = quote(step.path.replace(VERSION, self.version), safe="/?&=%+-.$")
            answer = ask(self.url + path, step.method, body, step.headers)
            if answer.status != 409 or step.conflicts:
                return answer
            assert time.monotonic() < deadline, f"{self.name}: {step.path} says {answer.text}"
            time.sleep(0.05)

    def until(self, path: str, *states: str) -> None:
        """Wait until a connector and its tasks are in these states."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            answer = ask(f"{self.url}{path}/status")
            found: list[str] = []
            if answer.status == 200:
                found = [answer.json["connector"]["state"], *(task["state"] for task in answer.json["tasks"])]
            if found == list(states):
                return
            assert time.monotonic() < deadline, f"{self.name}: {path} is {answer.text}, wanted {states}"
            time.sleep(0.05)

    def until_said(self, path: str, so: Callable[[Any], object]) -> None:
        """Wait until an answer's JSON is so."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not so((answer := ask(self.url + path)).json):
            assert time.monotonic() < deadline, f"{self.name}: {path} says {answer.text}"
            time.sleep(0.05)

    def _bare(self, value: Any, step: Step) -> Any:
        if isinstance(value, dict):
            if str(value.get("name")).endswith("plugin.version"):
                value = {k: v and "..." if k in ("value", "default_value") else v for k, v in value.items()}
            return {k: "..." if k in _WORDS and v else self._field(k, v, step) for k, v in value.items()}
        if isinstance(value, list):
            kept = [each for each in value if not (self.ours and _ours_alone(each))]
            found = [self._bare(each, step) for each in kept]
            of_converters = [each for each in found if _CONVERTERS in str(_name_of(each))]
            return [each for each in found if each not in of_converters] + sorted(of_converters, key=_name_of)
        return value

    def _field(self, name: str, value: Any, step: Step) -> Any:
        if name in ("trace", "kafka_cluster_id"):
            return "..."
        if name == "last_modified":
            return value is not None
        if name == "groups":
            return sorted(value)
        if name == "errors":
            return len(value) > 0
        if name == "task.class" or name in step.ignored:
            return "..."
        return self._bare(value, step)


def _differences(theirs: Any, ours: Any, where: str = "") -> list[str]:
    """Name what differs, and how."""
    if isinstance(theirs, dict) and isinstance(ours, dict) and theirs.keys() == ours.keys():
        return [each for key in theirs for each in _differences(theirs[key], ours[key], f"{where}.{key}")]
    if isinstance(theirs, list) and isinstance(ours, list) and len(theirs) == len(ours):
        pairs = enumerate(zip(theirs, ours, strict=True))
        return [each for n, (one, other) in pairs for each in _differences(one, other, f"{where}[{n}]")]
    return [] if theirs == ours else [f"{where}: theirs {theirs}, ours {ours}"]


def _ours_alone(value: Any) -> bool:
    """Say whether an item is something that a JVM worker does not have: a connector, a setting."""
    if not isinstance(value, dict):
        return isinstance(value, str) and value.startswith("barnabas.")
    return _name_of(value).startswith("barnabas.") or _name_of(value).endswith("schema.ddl")


def _name_of(item: Any) -> str:
    if not isinstance(item, dict):
        return ""
    value = item.get("value")
    return str(item.get("name") or item.get("class") or (value.get("name") if isinstance(value, dict) else ""))


@dataclass(frozen=True)
class Step:
    """One request. body: bytes as they are, anything else as JSON. ignored: fields not compared.

    conflicts: 409 is no reason to ask again.
    """

    method: str
    path: str
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    ignored: Sequence[str] = ()
    status_only: bool = False
    conflicts: bool = False


def compare(sides: Sequence[Side], steps: Sequence[Step]) -> None:
    """Ask both the same, one step after the other, and fail with every answer that differs."""
    differing = []
    for step in steps:
        theirs, ours = (side.ask(step) for side in sides)
        if theirs != ours:
            found = "\n  ".join(_differences(asdict(theirs), asdict(ours)))
            differing.append(f"{step.method} {step.path} {str(step.body)[:300]}\n  {found}")
    assert not differing, f"{len(differing)} answers differ:\n" + "\n".join(differing)
