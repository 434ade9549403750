"""What a voter makes of a leader at whose address nobody listens: its process has ended, and waiting is in vain.

The fetch timeout is for leaders that say nothing. Where the machine says that nobody is there, a follower asks for
votes after a moment. Should it be wrong, the leader is well: the other voters still hear from it and refuse their
pre-votes (KIP-996), and the follower goes on with its next fetch.

Voters take turns, by id, so that two who notice together do not stand against each other.
"""

from __future__ import annotations

from typing import Final

from barnabas.core.raft.follower import Follower
from barnabas.core.raft.replica import Replica
from barnabas.core.raft.voters import Endpoint, endpoint_on

FIRST_TURN_MS: Final = 20
"""For the others to notice as well: before that they would refuse."""
TURN_MS: Final = 60


def on_absence(replica: Replica, endpoint: Endpoint) -> None:
    """Take note that nobody listens at an address."""
    role = replica.role
    if not isinstance(role, Follower) or not replica.may_stand:
        return
    if endpoint_on(role.leader_endpoints, replica.settings.listener) != endpoint:
        return
    rank = sum(n < replica.key.node_id for n in replica.voters.node_ids if n != role.leader_id)
    role.leader_is_gone = True
    role.deadline_ms = min(role.deadline_ms, replica.now_ms + FIRST_TURN_MS + rank * TURN_MS)
