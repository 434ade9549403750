"""What a replica makes of an address at which nobody listens: that process has ended, and waiting for it is in vain.

For a while it asks others who leads, and leaves bootstrap servers at that address out; an observer also gives up what
it had asked there. So it hears of the next leader from a voter, and not after its own attempts to reach the last one.

The fetch timeout is for leaders that say nothing. Where the machine says that nobody is there, a follower that votes
asks for votes after a moment. Should it be wrong, the leader is well: the other voters still hear from it and refuse
their pre-votes (KIP-996), and the follower goes on with its next fetch.

Voters take turns, by id, so that two who notice together do not stand against each other.
"""

from __future__ import annotations

from typing import Final

from barnabas.core.raft.follower import Follower
from barnabas.core.raft.replica import Replica
from barnabas.core.raft.unattached import Unattached
from barnabas.core.raft.voters import Endpoint, endpoint_on

FIRST_TURN_MS: Final = 20
"""For the others to notice as well: before that they would refuse."""
TURN_MS: Final = 60
ELSEWHERE_MS: Final = 500
"""How long others are asked before that address is tried again."""


def on_absence(replica: Replica, endpoint: Endpoint) -> None:
    """Take note that nobody listens at an address."""
    role = replica.role
    if not isinstance(role, Follower | Unattached):
        return
    replica.left_out[endpoint] = replica.now_ms + ELSEWHERE_MS
    if not replica.may_stand:
        replica.connections.give_up(endpoint, replica.now_ms)
    if isinstance(role, Follower) and endpoint_on(role.leader_endpoints, replica.settings.listener) == endpoint:
        _leader_is_gone(replica, role)


def _leader_is_gone(replica: Replica, role: Follower) -> None:
    role.leader_is_gone = True
    if replica.may_stand:
        rank = sum(n < replica.key.node_id for n in replica.voters.node_ids if n != role.leader_id)
        role.deadline_ms = min(role.deadline_ms, replica.now_ms + FIRST_TURN_MS + rank * TURN_MS)
