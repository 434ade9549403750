"""How much work something is, whatever machine does it: the lines of Python that it runs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, Generic, TypeVar

D = TypeVar("D")


class Sizes(Generic[D]):
    """The same thing, small and large; kept out of the messages of failed tests, in which it would have no end."""

    def __init__(self, small: D, large: D) -> None:
        self.small, self.large = small, large

    def lines_run(self, work: Callable[[D], object]) -> tuple[int, int]:
        """Give how many lines it takes with the small one and with the large one, when it is not done for the first
        time: what is done once is remembered."""
        work(self.small)
        work(self.large)
        return lines_run(lambda: work(self.small)), lines_run(lambda: work(self.large))


def lines_run(work: Callable[[], object]) -> int:
    """Run `work`, and give how many lines of Python that took."""
    count = 0

    def trace(frame: FrameType, event: str, arg: object) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count
