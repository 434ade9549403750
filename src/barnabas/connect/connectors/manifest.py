"""Which files a sink has committed, together with the offsets behind them: exactly once for formats without commits.

Below the folder that is written to stands a folder `_connect/<connector>`, which readers of the data skip:

- `staging/<task>.<run>.<number>/`: files of a batch that is being written;
- `commits/<number>.json`: what a batch added, and where every partition of the connector goes on after it.

Committing is making the file of the next number appear. Only one can, so a task that was replaced without knowing
finds that its partitions have moved on, and gives up. What was committed is then moved into place; should the worker
die before that is done, whoever opens the manifest next does it. Before it drops what an earlier run of its task has
staged, a run makes a commit of its own that names it: the earlier one may be slow rather than gone, and would commit
files that are no more.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote

from barnabas.connect.connector import ConnectError, FencedError
from barnabas.connect.connectors.storage import Storage
from barnabas.model.topic_partition import TopicPartition
from barnabas.spark.offsets import offsets_from_json, offsets_to_json

FOLDER: Final = "_connect"
KEPT_COMMITS: Final = 100
_DIGITS: Final = 20


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit. added: files below the staging folder; removed: files in place that a compaction replaced.

    runs: for tasks that had to drop what another run had staged, the run that may commit from then on.
    """

    number: int = -1
    staging: str = ""
    added: Sequence[str] = ()
    removed: Sequence[str] = ()
    offsets: Mapping[TopicPartition, int] = field(default_factory=dict)
    runs: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> str:
        """Give the text of its file."""
        files = {"staging": self.staging, "added": [*self.added], "removed": [*self.removed]}
        state = {"offsets": offsets_to_json(self.offsets), "runs": {**self.runs}}
        return json.dumps({"version": 1, **files, **state}, indent=1)

    @classmethod
    def from_json(cls, number: int, text: str) -> Commit:
        """Give the commit of a file; ConnectError when it is of a version that is not known here."""
        value: dict[str, Any] = json.loads(text)
        if value["version"] != 1:
            raise ConnectError(f"commit {number} has version {value['version']}, and 1 is the newest known here")
        offsets, runs = offsets_from_json(value["offsets"]), value.get("runs", {})
        return cls(number, value["staging"], tuple(value["added"]), tuple(value["removed"]), offsets, runs)

    def following(self, **changes: Any) -> Commit:
        """Give a commit that comes after this one: nothing but what stays true, and the changes."""
        return Commit(**{"number": self.number + 1, "offsets": self.offsets, "runs": self.runs, **changes})


class Manifest:
    """The commits of one connector. task: which of its tasks this is."""

    def __init__(self, storage: Storage, connector: str, task: int) -> None:
        self._storage = storage
        self._folder = f"{FOLDER}/{quote(connector, safe='')}"
        self._task = str(task)
        self._run = uuid.uuid4().hex[:12]
        self._batches = 0
        self._latest = Commit()
        self._is_clean = False

    @property
    def offsets(self) -> Mapping[TopicPartition, int]:
        """Give where every partition goes on."""
        return self._latest.offsets

    def open(self) -> None:
        """Learn the latest commit; finish what was committed and not moved; drop what this task left uncommitted."""
        numbers = self._numbers()
        commits = [self._read(number) for number in numbers[-KEPT_COMMITS:]]
        self._latest = commits[-1] if commits else Commit()
        committed = {each.staging: each for each in commits}
        staged = self._storage.names(f"{self._folder}/staging")
        for staging in staged:
            if staging in committed:
                self._move(committed[staging])
        self._drop(
            [staging for staging in staged if staging not in committed and self._owner(staging)[0] == self._task]
        )
        for number in numbers[:-KEPT_COMMITS]:
            self._storage.remove(self._name(number))
        self._is_clean = True

    def close(self) -> None:
        """Drop what a batch has left that failed; not while one is being staged or committed."""
        if not self._is_clean:
            self.open()

    def stage(self) -> str:
        """Give the name of a new staging folder, where there is none of that name."""
        if not self._is_clean:
            self.open()
        self._is_clean = False
        self._batches += 1
        return f"{self._task}.{self._run}.{self._batches}"

    def path_of(self, staging: str) -> str:
        """Give a staging folder as the storage knows it."""
        return f"{self._folder}/staging/{staging}"

    def commit(
        self,
        staging: str,
        begun: Mapping[TopicPartition, int],
        ended: Mapping[TopicPartition, int],
        removed: Sequence[str] = (),
    ) -> Commit:
        """Commit what is in a staging folder, and move it into place; give the commit.

        begun, ended: where the batch began and ends, by partition. FencedError when another commit has taken one of
        these partitions elsewhere meanwhile; nothing of the batch is there then.
        """
        added = [name for name, _ in self._storage.files(self.path_of(staging))]
        self._storage.flush([f"{self.path_of(staging)}/{name}" for name in added])
        draft = f"{self._folder}/commits/.{staging}"

        def after(latest: Commit) -> Commit:
            self._check(latest, begun, staging)
            offsets = {**latest.offsets, **ended}
            return latest.following(staging=staging, added=added, removed=tuple(removed), offsets=offsets)

        made = self._append(after, draft)
        self._move(made)
        self._is_clean = True
        return made

    def set_offsets(self, offsets: Mapping[TopicPartition, int | None]) -> None:
        """Have partitions go on elsewhere, None to forget one; while no task of the connector runs."""
        self.open()
        kept = {each: offset for each, offset in self._latest.offsets.items() if each not in offsets}
        moved = {each: offset for each, offset in offsets.items() if offset is not None}
        made = self._latest.following(offsets={**kept, **moved})
        if not self._storage.publish(made.to_json(), self._name(made.number), f"{self._folder}/commits/.offsets"):
            raise ConnectError("the offsets have changed meanwhile: a task is still at work")
        self._latest = made

    def _append(self, after: Callable[[Commit], Commit], draft: str) -> Commit:
        """Publish what `after` makes of the latest commit, whoever else publishes meanwhile."""
        while True:
            # Old commits are removed: that a number is free does not say that it comes next.
            self._catch_up()
            made = after(self._latest)
            if self._storage.publish(made.to_json(), self._name(made.number), draft):
                self._latest = made
                if made.number >= KEPT_COMMITS:
                    self._storage.remove(self._name(made.number - KEPT_COMMITS))
                return made

    def _catch_up(self) -> None:
        numbers = self._numbers()
        if numbers and numbers[-1] != self._latest.number:
            self._latest = self._read(numbers[-1])

    def _check(self, latest: Commit, begun: Mapping[TopicPartition, int], staging: str) -> None:
        """Compare where the batch began with where the latest commit ends, where it ends at all."""
        passed = [each for each, offset in begun.items() if latest.offsets.get(each, offset) > offset]
        if not passed and latest.runs.get(self._task, self._run) == self._run:
            return
        self._storage.remove(self.path_of(staging))
        self._is_clean = True
        if passed:
            raise FencedError(
                f"{passed[0]} is at {latest.offsets[passed[0]]} by now: another task has written this batch"
            )
        raise FencedError(f"task {self._task} has been started anew elsewhere")

    def _drop(self, stagings: Sequence[str]) -> None:
        """Remove what was staged and will not be committed: first see to it that whoever staged it cannot."""
        others = any(self._owner(staging)[1] != self._run for staging in stagings)
        if others or self._latest.runs.get(self._task, self._run) != self._run:
            draft = f"{self._folder}/commits/.{self._task}.{self._run}"
            self._append(lambda latest: latest.following(runs={**latest.runs, self._task: self._run}), draft)
        for staging in stagings:
            self._storage.remove(self.path_of(staging))

    def _owner(self, staging: str) -> tuple[str, str]:
        """Give task and run of a staging folder."""
        task, _, rest = staging.partition(".")
        return task, rest.partition(".")[0]

    def _move(self, commit: Commit) -> None:
        if not commit.staging:
            return
        for name in commit.added:
            self._storage.move(f"{self.path_of(commit.staging)}/{name}", name)
        for name in commit.removed:
            self._storage.remove(name)
        self._storage.remove(self.path_of(commit.staging))

    def _numbers(self) -> list[int]:
        names = self._storage.names(f"{self._folder}/commits")
        return [int(name.removesuffix(".json")) for name in names if not name.startswith(".")]

    def _read(self, number: int) -> Commit:
        return Commit.from_json(number, self._storage.read(self._name(number)))

    def _name(self, number: int) -> str:
        return f"{self._folder}/commits/{number:0{_DIGITS}}.json"
