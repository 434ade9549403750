"""A user who asks for topics without pause, and what he was shown: every answer is one state of the rules, or torn."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final, Self

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from tests.server.frames import FramePeer
from tests.server.requests import build

SECRET: Final = "foo"
OTHERS: Final = tuple(f"x{n}" for n in range(50))
NOTHING: Final[frozenset[str]] = frozenset()
_LIMIT_S: Final = 60


class Hammer:
    """Asks over connections that `connect` makes, logged in; makes another one whenever one breaks.

    seen: how often each set of topics was shown; answers: how many there were.
    """

    def __init__(self, connect: Callable[[], FramePeer], names: Sequence[str] = (SECRET, *OTHERS)) -> None:
        self.seen: Counter[frozenset[str]] = Counter()
        self._connect = connect
        self._request: Any = build(ApiKey.METADATA, topics=[{"name": n} for n in names])
        self._request.allow_auto_topic_creation = False
        self._stop = threading.Event()
        self._more = threading.Condition()
        self._thread = threading.Thread(target=self._run, daemon=True)

    @property
    def answers(self) -> int:
        """Give how many answers there were."""
        return sum(self.seen.values())

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(_LIMIT_S)

    def wait(self, done: Callable[[], bool]) -> None:
        """Wait until something holds of the answers."""
        with self._more:
            assert self._more.wait_for(done, _LIMIT_S)

    def wait_for(self, shown: frozenset[str], more: int = 1) -> None:
        """Wait until that was shown so many times more."""
        wanted = self.seen[shown] + more
        self.wait(lambda: self.seen[shown] >= wanted)

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                with self._connect() as peer:
                    self._ask(peer)
            except (OSError, AssertionError):
                self._stop.wait(0.01)

    def _ask(self, peer: FramePeer) -> None:
        while not self._stop.is_set():
            answer = peer.call(self._request)
            refused = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            shown = frozenset(t.name for t in answer.topics if t.error_code != refused)
            with self._more:
                self.seen[shown] += 1
                self._more.notify_all()


def rule(name: str, user: str = "bob", *, deny: bool = False, operation: int = 2) -> dict[str, Any]:
    """Give a rule on a topic as CreateAcls wants it; operation: ALL unless told otherwise."""
    return {
        "resource_type": 2, "resource_name": name, "principal": f"User:{user}", "host": "*", "operation": operation,
        "permission_type": 2 if deny else 3,
    }  # fmt: skip


def filter_of(made: dict[str, Any]) -> dict[str, Any]:
    """Give the filter that matches just this rule."""
    return {
        "resource_type_filter": made["resource_type"],
        "resource_name_filter": made["resource_name"],
        "pattern_type_filter": 3,
        "principal_filter": made["principal"],
        "host_filter": made["host"],
        "operation": made["operation"],
        "permission_type": made["permission_type"],
    }
