"""Log-ins and renewals of sessions a second, of either system; the load is a process of its own (`login_load`)."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final, NamedTuple

from bench.goals import Measured, Results
from bench.login_load import TLS, LoginLoad, LoginRate
from bench.login_nodes import LoginNode

_LIMIT_S: Final = 600
_RAMP_S: Final = 1.0
"""What a load that the node is warm for runs unmeasured, so that its connections are under way."""
_BUSY: Final = 0.9
"""From which part of a core on the load may be what bounds a rate."""
_STARVED: Final = 0.1
Say = Callable[[str], None]


class Way(NamedTuple):
    """One way to log in; key: that of its rows, without `login-` or `renew-`; renewed: whether sessions end at all."""

    key: str
    mechanism: str
    tls: bool = False
    renewed: bool = True


WAYS: Final = (
    Way("plain", "PLAIN"),
    Way("scram-256", "SCRAM-SHA-256"),
    Way("scram-512", "SCRAM-SHA-512"),
    Way("oauth", "OAUTHBEARER"),
    Way("tls", TLS, tls=True, renewed=False),
    Way("scram-512-tls", "SCRAM-SHA-512", tls=True),
)


@dataclass(frozen=True, slots=True)
class LoginSizes:
    """How much is done. under_way: log-ins at once, below Kafka's backlog of 50; connections: to renew sessions on."""

    repeats: int
    seconds: float
    warm_up_s: float
    under_way: int
    connections: int


FULL: Final = LoginSizes(repeats=3, seconds=5, warm_up_s=5, under_way=32, connections=12_000)
QUICK: Final = LoginSizes(repeats=1, seconds=2, warm_up_s=1, under_way=32, connections=6_000)


def measure_logins(kafka: bool, sizes: LoginSizes, results: Results, say: Say) -> None:
    """Measure one system: Apache Kafka or Barnabas."""
    with (
        tempfile.TemporaryDirectory(prefix="barnabas-bench-") as work,
        LoginNode(Path(work) / "node", kafka=kafka) as node,
    ):
        for way in WAYS:
            load = node.load(
                way.mechanism, tls=way.tls, seconds=sizes.seconds, warm_up_s=sizes.warm_up_s, under_way=sizes.under_way
            )
            _row(load, f"login-{way.key}", sizes, results, say)
            if way.renewed:
                _row(replace(load, connections=sizes.connections), f"renew-{way.key}", sizes, results, say)


def _row(load: LoginLoad, key: str, sizes: LoginSizes, results: Results, say: Say) -> None:
    say(f"  {key}")
    measured = results.setdefault(key, Measured())
    for number in range(sizes.repeats):
        rate = run(replace(load, warm_up_s=_RAMP_S) if number else load)
        measured.values.append(rate.per_second)
        measured.cpu_us.append(rate.node_cpu_s / rate.count * 1e6)
        if rate.busy > _BUSY:
            say(f"    the load took {rate.busy:.0%} of a core: it may be what bounds {key}")
        if rate.starved > _STARVED:
            say(f"    in {rate.starved:.0%} of the time too few sessions might be renewed: look at the processor time")


def run(load: LoginLoad) -> LoginRate:
    """Run a load in its own process."""
    done = subprocess.run(
        [sys.executable, "-m", "bench.login_load"],
        input=json.dumps(asdict(load)),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=_LIMIT_S,
    )
    return LoginRate(**json.loads(done.stdout))
