"""What a client is put through: a table. Values only; `run` carries it out."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from barnabas.reauth import verdict
from barnabas.reauth.verdict import Judge


class Act(Enum):
    """The one thing that a scenario does while the client works."""

    NOTHING = auto()
    END_A_SESSION = auto()
    CHANGE_THE_PASSWORD = auto()
    CHANGE_THE_PRINCIPAL = auto()


@dataclass(frozen=True, slots=True)
class Scenario:
    """name: for options and tables; title: for people.

    lifetimes: of sessions, one after the other, as parts of the lifetime asked for; 0 for one that does not end
    meanwhile. step: by which part of it each answer of a login but the last is held back; answer: the same for every
    tenth Produce or Fetch, behind which the next ones wait.
    """

    name: str
    title: str
    judge: Judge
    lifetimes: tuple[float, ...] = (1.0,)
    step: float = 0.0
    answer: float = 0.0
    act: Act = Act.NOTHING


SCENARIOS: Final = (
    Scenario("short", "short sessions", verdict.renewals),
    Scenario("jittered", "each session of another length", verdict.renewals, lifetimes=(1.0, 0.6, 1.3, 0.8)),
    Scenario("slow", "a slow mechanism", verdict.renewals, lifetimes=(1.3,), step=0.15),
    Scenario("in-flight", "requests under way", verdict.renewals, lifetimes=(1.3,), answer=0.05),
    Scenario("ended", "a session ended in the middle", verdict.cut_in_traffic, lifetimes=(0,), act=Act.END_A_SESSION),
    Scenario("password", "another password", verdict.wrong_password, act=Act.CHANGE_THE_PASSWORD),
    Scenario("principal", "another principal", verdict.other_principal, act=Act.CHANGE_THE_PRINCIPAL),
)
