"""What all answers tell besides what was asked: a later epoch, a leader (the common half of every response)."""

from __future__ import annotations

from enum import Enum

from barnabas.core.raft.leader import Leader
from barnabas.core.raft.replica import Replica
from barnabas.core.raft.voters import Endpoints
from barnabas.wire.errors import ErrorCode


class Outcome(Enum):
    """What became of a response."""

    DONE = "the peer may be asked the next thing at once"
    FAILED = "the peer is left alone for a moment"
    UNHANDLED = "the response is of this epoch and says more"


_LATER_LEADER = (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER)


def common(replica: Replica, error: int, leader: int, epoch: int, endpoints: Endpoints) -> Outcome:
    """Take in epoch and leader of a response, and the errors that mean the same in all of them."""
    leader_id = None if leader < 0 else leader
    before = replica.role
    if epoch < replica.epoch or error == ErrorCode.UNKNOWN_LEADER_EPOCH:
        return Outcome.FAILED
    if epoch > replica.epoch or error in _LATER_LEADER:
        learn(replica, leader_id, epoch, endpoints)
        # An answer without news is no reason to ask the same peer again at once.
        return Outcome.FAILED if replica.role is before else Outcome.DONE
    if leader_id is not None and not replica.role.leader_endpoints and endpoints and leader_id != replica.key.node_id:
        replica.become_follower(epoch, leader_id, endpoints)
        return Outcome.UNHANDLED if error == ErrorCode.NONE else Outcome.DONE
    if error == ErrorCode.NONE:
        return Outcome.UNHANDLED
    if error in (ErrorCode.BROKER_NOT_AVAILABLE, ErrorCode.INVALID_VOTER_KEY, ErrorCode.INVALID_REQUEST):
        return Outcome.FAILED
    return Outcome.UNHANDLED


def is_consistent(replica: Replica, leader_id: int | None, epoch: int) -> bool:
    """Say whether a leader and epoch that somebody names contradict nothing this replica knows."""
    if leader_id is not None and leader_id == replica.key.node_id:
        return isinstance(replica.role, Leader) or epoch != replica.epoch or replica.role.leader_id == leader_id
    known = replica.role.leader_id
    return epoch != replica.epoch or leader_id is None or known is None or leader_id == known


def learn(replica: Replica, leader_id: int | None, epoch: int, endpoints: Endpoints) -> None:
    """Move on when a leader and epoch are news; what contradicts is left aside."""
    if not is_consistent(replica, leader_id, epoch):
        return
    reachable = leader_id is not None and bool(endpoints) and leader_id != replica.key.node_id
    if epoch > replica.epoch:
        if leader_id is not None and reachable:
            replica.become_follower(epoch, leader_id, endpoints)
        else:
            # Somebody leads: this replica must not vote for another in that epoch, even if it cannot reach the leader.
            replica.become_unattached(epoch, leader_id)
    elif (
        leader_id is not None
        and reachable
        and epoch == replica.epoch
        and (replica.role.leader_id is None or len(endpoints) > len(replica.role.leader_endpoints))
    ):
        replica.become_follower(epoch, leader_id, endpoints)
