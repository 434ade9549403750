"""What each role does by itself as time passes: timeouts, and the requests that it keeps sending."""

from __future__ import annotations

from barnabas.core.raft import voter_changes
from barnabas.core.raft.begin_epoch import begin_request
from barnabas.core.raft.candidate import Candidate
from barnabas.core.raft.end_epoch import end_request
from barnabas.core.raft.fetch_serving import expire_fetches
from barnabas.core.raft.fetching import fetch_request
from barnabas.core.raft.follower import Follower
from barnabas.core.raft.joining import news_of_me
from barnabas.core.raft.leader import Leader
from barnabas.core.raft.prospective import Prospective
from barnabas.core.raft.ready import Peer
from barnabas.core.raft.replica import Replica
from barnabas.core.raft.resigned import Resigned
from barnabas.core.raft.snapshot_fetching import fetch_snapshot_request
from barnabas.core.raft.unattached import Unattached
from barnabas.core.raft.vote import give_up, vote_request
from barnabas.core.raft.voters import Endpoint, endpoint_on


def poll(replica: Replica) -> int | None:
    """Act until nothing more is to be done now; gives when to poll again at the latest, None for never."""
    replica.connections.expire(replica.now_ms)
    while True:
        role = replica.role
        due = _poll_role(replica)
        if replica.role is role:
            break
    return _earliest(due, replica.connections.next_due_ms)


def _poll_role(replica: Replica) -> int | None:
    role = replica.role
    if isinstance(role, Leader):
        return _poll_leader(replica, role)
    if isinstance(role, Follower):
        return _poll_follower(replica, role)
    if isinstance(role, Unattached):
        return _poll_unattached(replica, role)
    if isinstance(role, Resigned):
        return _poll_resigned(replica, role)
    return _poll_nominee(replica, role)


def _poll_leader(replica: Replica, role: Leader) -> int | None:
    now = replica.now_ms
    if role.resign_requested or role.has_lost_majority(now):
        replica.resign()
        return None
    voter_changes.expire(replica, role)
    if role.parked:
        expire_fetches(replica, role)
    if replica.is_only_voter:
        return _earliest(_parked_due(role), role.change.due_ms if role.change else None)
    if role.begin_ms <= now:
        role.begin_ms = now + role.begin_interval_ms
        replica.send_to_voters(role.to_be_told(now), lambda voter: begin_request(replica, voter))
    change_due = role.change.due_ms if role.change else None
    return _earliest(role.begin_ms, role.check_ms, change_due, _parked_due(role))


def _parked_due(role: Leader) -> int | None:
    return min(fetch.due_ms for fetch in role.parked.values()) if role.parked else None


def _poll_nominee(replica: Replica, role: Prospective | Candidate) -> int | None:
    if not replica.stopping and role.deadline_ms <= replica.now_ms:
        if isinstance(role, Candidate):
            replica.become_prospective()
        else:
            give_up(replica, role)
        return None
    if not role.votes.is_lost:
        replica.send_to_voters(role.votes.unanswered, lambda voter: vote_request(replica, voter))
    return None if replica.stopping else role.deadline_ms


def _poll_unattached(replica: Replica, role: Unattached) -> int | None:
    if replica.stopping:
        return None
    if not replica.may_stand:
        _fetch_from_bootstrap(replica)
        return None
    if role.deadline_ms is None:
        role.deadline_ms = replica.election_deadline()
    if replica.is_only_voter or role.deadline_ms <= replica.now_ms:
        replica.become_prospective()
        return None
    _fetch_from_bootstrap(replica)
    return role.deadline_ms


def _poll_resigned(replica: Replica, role: Resigned) -> int | None:
    others = [v.key for v in replica.voters if v.node_id in role.unacknowledged]
    if replica.stopping:
        replica.send_to_voters(others, lambda _: end_request(replica, role))
        return None
    if replica.is_only_voter:
        replica.become_prospective()
        return None
    if role.deadline_ms <= replica.now_ms:
        replica.become_unattached(role.epoch + 1)
        return None
    replica.send_to_voters(others, lambda _: end_request(replica, role))
    return role.deadline_ms


def _poll_follower(replica: Replica, role: Follower) -> int | None:
    if replica.stopping:
        return None
    if not replica.may_stand:
        _tell_or_fetch(replica, role)
        return role.update_ms if role.update_ms > replica.now_ms and replica.settings.auto_join else None
    if replica.is_only_voter or role.deadline_ms <= replica.now_ms:
        replica.become_prospective()
        return None
    _tell_or_fetch(replica, role)
    return _earliest(role.deadline_ms, role.update_ms if role.update_ms > replica.now_ms else None)


def _tell_or_fetch(replica: Replica, role: Follower) -> None:
    endpoint = endpoint_on(role.leader_endpoints, replica.settings.listener)
    if endpoint is None or replica.connections.is_backing_off(role.leader_id) or _asks_elsewhere(replica, endpoint):
        _fetch_from_bootstrap(replica)
        return
    if replica.connections.any_in_flight:
        return
    leader = Peer(role.leader_id, endpoint)
    if role.update_ms <= replica.now_ms:
        role.update_ms = replica.now_ms + replica.settings.fetch_timeout_ms
        news = news_of_me(replica, role)
        if news is not None:
            replica.send(leader, news)
            return
    if role.snapshot is not None:
        replica.send(leader, fetch_snapshot_request(replica, role.snapshot))
    else:
        replica.send(leader, fetch_request(replica))


def _asks_elsewhere(replica: Replica, leader: Endpoint) -> bool:
    return replica.is_left_out(leader) and any(peer.endpoint != leader for peer in replica.bootstrap)


def _fetch_from_bootstrap(replica: Replica) -> None:
    peer = replica.bootstrap_server()
    if peer is not None:
        replica.send(peer, fetch_request(replica))


def _earliest(*dues: int | None) -> int | None:
    return min((due for due in dues if due is not None), default=None)
