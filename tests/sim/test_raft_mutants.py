"""The simulation has teeth: mistakes that are planted in the Raft core break a promise within a few hundred seeds."""

from __future__ import annotations

import pytest

from barnabas.core.raft import voter_changes
from barnabas.core.raft.leader import Leader, committed_end
from barnabas.core.raft.ready import InconsistentLogError
from barnabas.core.raft.replica import Replica
from barnabas.core.raft.voters import ReplicaKey
from barnabas.wire.errors import ErrorCode

from .raft_histories import run_histories

pytestmark = pytest.mark.sim

PROMISES = (
    "both lead",
    "lacks committed",
    "other data committed",
    "what nobody committed",
    "below what is committed",
    "votes twice",
    "cannot apply",
)

refusal = voter_changes._refusal


def commit_by_count_alone(leader: Leader) -> bool:
    """Commit what more than half hold, of whichever epoch it is (figure 8 of the Raft paper)."""
    committed = committed_end([-1 if p.end is None else p.end for p in leader.voters.values()])
    if committed <= (leader.high_watermark or 0):
        return False
    leader.high_watermark = committed
    return True


def change_upon_change(
    replica: Replica, cluster_id: str | None, key: ReplicaKey
) -> tuple[ErrorCode, str | None] | None:
    """Let a leader change the voters while the last change of its own is not committed."""
    refused, role = refusal(replica, cluster_id, key), replica.role
    is_early = refused is not None and refused[0] is ErrorCode.REQUEST_TIMED_OUT
    return None if is_early and isinstance(role, Leader) and role.high_watermark is not None else refused


def change_at_once(replica: Replica, cluster_id: str | None, key: ReplicaKey) -> tuple[ErrorCode, str | None] | None:
    """Let a leader change the voters before it has committed anything of its epoch."""
    refused, role = refusal(replica, cluster_id, key), replica.role
    is_early = refused is not None and refused[0] is ErrorCode.REQUEST_TIMED_OUT
    is_new = isinstance(role, Leader) and role.high_watermark is None and role.change is None
    return None if is_early and is_new else refused


@pytest.mark.parametrize(
    ("owner", "name", "mistake", "seed"),
    [
        pytest.param(Leader, "_commit", commit_by_count_alone, 92, id="an-earlier-epoch-counts"),
        pytest.param(voter_changes, "_refusal", change_upon_change, 17, id="voters-change-twice"),
        pytest.param(voter_changes, "_refusal", change_at_once, 69, id="voters-change-too-early"),
    ],
)
def test_a_planted_mistake_is_found(
    owner: object, name: str, mistake: object, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """seed: one that finds it at once, today; where the histories have changed, one of the next ones does."""
    monkeypatch.setattr(owner, name, mistake)
    with pytest.raises((AssertionError, InconsistentLogError), match="|".join(PROMISES)):
        run_histories(range(seed, seed + 300))
