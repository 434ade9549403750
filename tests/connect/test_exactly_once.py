"""Sources in transactions, and the leader's own, on brokers of ours and on a real Kafka (KIP-618)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from barnabas.client.config import ClientConfig
from barnabas.client.transaction_errors import TransactionError
from barnabas.client.transactional_producer import TransactionalProducer
from barnabas.connect.config import WorkerConfig, transactional
from barnabas.connect.connector import ConnectError, FencedError
from barnabas.connect.herder_port import ConnectorOffset, WriteFailedError
from barnabas.connect.source_transactions import SourceTransactions
from barnabas.connect.stores.offsets import OffsetStore
from barnabas.connect.topic_log import InternalTopic
from barnabas.core.connect.boundaries import Boundaries, TransactionBoundary
from barnabas.core.connect.ids import ConnectorTaskId
from barnabas.wire.record_batch import Record
from tests.connect.clock import SetClock
from tests.connect.committed import Granted, committed, decided, make_topics
from tests.connect.conftest import OURS, THEIRS
from tests.connect.rest.http import request, signed
from tests.connect.test_mixed_group import some_files
from tests.connect.workers import running, source, states, until, worker_properties
from tests.peers.connect import JvmWorker

TASK = ConnectorTaskId("x", 0)


@pytest.fixture
def bootstrap(brokers: str) -> str:
    return brokers


def _producer(bootstrap: str, transactional_id: str) -> TransactionalProducer:
    return TransactionalProducer(
        ClientConfig.from_properties(
            transactional({"bootstrap.servers": bootstrap, "linger.ms": "0"}, transactional_id)
        )
    )


def _rows(*values: str) -> list[tuple[int | None, Record]]:
    return [(None, Record(0, 0, None, value.encode(), ())) for value in values]


def _at(position: int) -> Sequence[ConnectorOffset]:
    return [ConnectorOffset({"file": "a"}, {"position": position})]


async def test_records_and_offsets_are_seen_together_or_not_at_all(bootstrap: str, group: str) -> None:
    client = ClientConfig.from_properties({"bootstrap.servers": bootstrap})
    store = OffsetStore(client, InternalTopic(f"{group}-offsets", "offset.storage.topic", "offsets", 1, 1))
    topic, connector = f"{group}-t", Boundaries(TransactionBoundary.CONNECTOR)
    await make_topics(bootstrap, topic)
    async with store:

        async def seen() -> tuple[list[str], object]:
            (known,) = await store.read("x", [{"file": "a"}])
            return await decided(bootstrap, topic), known.offset

        tasks = [
            SourceTransactions(TASK, _producer(bootstrap, f"{group}-x-0"), connector, store, SetClock())
            for _ in range(2)
        ]
        first, second = tasks
        try:
            await first.begin(Granted())
            assert await first.write(topic, _rows("a", "b")) == 2
            assert not await first.batch_done(_at(2))
            assert await committed(bootstrap, topic) == []
            await first.write(topic, _rows("c"))
            first.wishes.commit()
            assert await first.batch_done(_at(3))
            assert await seen() == (["a", "b", "c"], {"position": 3})

            await first.write(topic, _rows("not seen"))
            first.wishes.abort()
            assert await first.batch_done(_at(4))
            assert await seen() == (["a", "b", "c"], {"position": 4})

            with pytest.raises(ConnectError, match="its own offsets"):
                await first.write(store.topic, _rows("x"))

            await first.write(topic, _rows("of a zombie"))
            await second.begin(Granted())
            first.wishes.commit()
            with pytest.raises(FencedError, match="may not write any more"):
                await first.batch_done(_at(5))
            assert await seen() == (["a", "b", "c"], {"position": 4})
            await second.write(topic, _rows("d"))
            second.wishes.commit()
            await second.batch_done(_at(5))
            assert await seen() == (["a", "b", "c", "d"], {"position": 5})

            await second.write(topic, _rows("half"))
            await second.finish()  # the connector did not say that its transaction is whole
        finally:
            for task in tasks:
                await task.close()
        assert await seen() == (["a", "b", "c", "d"], {"position": 5})


async def test_a_part_of_a_batch_is_never_seen(bootstrap: str, group: str) -> None:
    client = ClientConfig.from_properties({"bootstrap.servers": bootstrap})
    topic = f"{group}-t"
    await make_topics(bootstrap, topic)
    async with OffsetStore(client, InternalTopic(f"{group}-offsets", "offset.storage.topic", "offsets", 1, 1)) as store:
        boundaries = Boundaries(TransactionBoundary.INTERVAL, 0)
        task = SourceTransactions(TASK, _producer(bootstrap, f"{group}-x-0"), boundaries, store, SetClock())
        await task.begin(Granted())
        await task.write(topic, _rows("a"))
        await task.idle()
        await task.finish()
        assert await committed(bootstrap, topic) == []
        await task.batch_done(_at(1))
        assert await decided(bootstrap, topic) == ["a"]
        await task.write(topic, _rows("b"))
        await task.close()
        assert await committed(bootstrap, topic) == ["a"]
        (known,) = await store.read("x", [{"file": "a"}])
        assert known.offset == {"position": 1}


async def test_a_connector_that_wants_both_ends_of_a_transaction_fails(bootstrap: str, group: str) -> None:
    client = ClientConfig.from_properties({"bootstrap.servers": bootstrap})
    store = OffsetStore(client, InternalTopic(f"{group}-offsets", "offset.storage.topic", "offsets", 1, 1))
    boundaries = Boundaries(TransactionBoundary.CONNECTOR)
    task = SourceTransactions(TASK, _producer(bootstrap, f"{group}-x-0"), boundaries, store, SetClock())
    task.wishes.commit()
    task.wishes.abort()
    with pytest.raises(ConnectError, match="committed and to be aborted"):
        await task.batch_done([])
    await task.close()
    await store.close()


async def test_a_new_generation_shuts_out_the_one_before(bootstrap: str, group: str, tmp_path: Path) -> None:
    files = some_files(tmp_path)
    properties = worker_properties(bootstrap, group, exactly_once_source_support="enabled")
    await make_topics(bootstrap, f"{group}-t")
    two = source(files[0], f"{group}-t", files=f"{files[0]},{files[1]}") | {"tasks.max": "2"}
    async with running(properties) as leader, running(properties) as follower:
        assert (await request(follower, "PUT", "/connectors/lines/config", two)).status == 201
        await until(lambda: states(leader, "lines") == ["RUNNING"] * 3)
        counts = leader.engine.configs
        assert counts.state.task_count_records["lines"] == 2
        async with _producer(bootstrap, f"{group}-lines-1") as zombie:
            await zombie.init_transactions()
            await zombie.begin()
            await zombie.send(f"{group}-t", b"of a zombie")
            one = source(files[0], f"{group}-t")
            assert (await request(follower, "PUT", "/connectors/lines/config", one)).status == 200
            await until(lambda: counts.state.task_count_records["lines"] == 1)
            await until(lambda: states(leader, "lines") == ["RUNNING"] * 2)
            with pytest.raises(TransactionError):
                await zombie.commit()
        key = counts.state.session_key
        assert key is not None
        for worker in (leader, follower):
            assert (await request(worker, "PUT", "/connectors/lines/fence", b"", signed(key.key, b""))).status == 204
            assert (await request(worker, "PUT", "/connectors/nope/fence", b"", signed(key.key, b""))).status == 404
            assert (await request(worker, "PUT", "/connectors/lines/fence", b"")).status == 400
            assert (await request(worker, "PUT", "/connectors/lines/fence", b"", signed(b"x", b""))).status == 403
        assert (await request(leader, "PUT", "/connectors/lines/stop")).status == 204
        await until(lambda: states(leader, "lines") == ["STOPPED"])
        wanted = json.dumps({"offsets": [{"partition": {"filename": "x"}, "offset": {"position": 1}}]}).encode()
        answer = await request(leader, "PATCH", "/connectors/lines/offsets", wanted)
        assert answer.status == 200, answer.text
        assert counts.state.task_count_records["lines"] == 0


@pytest.mark.parametrize("support", ["preparing", "enabled"])
async def test_a_leader_that_was_shut_out_claims_the_topic_again_while_it_leads(
    bootstrap: str, group: str, support: str, tmp_path: Path
) -> None:
    (file, *_) = some_files(tmp_path)
    await make_topics(bootstrap, f"{group}-t")
    properties = worker_properties(bootstrap, group, exactly_once_source_support=support)
    async with running(properties) as leader, running(properties) as follower:
        other = TransactionalProducer(WorkerConfig.from_properties(properties).leader_client)
        async with other:
            await other.init_transactions()
            with pytest.raises(WriteFailedError, match="try again"):
                await leader.engine.configs.put_connector_config("lines", source(file, f"{group}-t"))
            assert "lines" not in follower.engine.configs.state
            leader.engine.inbox.wake.set()
            await until(lambda: leader.engine.configs.leader.claimed)
            await other.begin()
            await other.send(f"{group}-configs", b"null", key=b"connector-lines")
            with pytest.raises(TransactionError):
                await other.commit()
        assert (await request(follower, "PUT", "/connectors/lines/config", source(file, f"{group}-t"))).status == 201
        await until(lambda: states(follower, "lines") == ["RUNNING", "RUNNING"])


@pytest.mark.slow
@pytest.mark.peer
@pytest.mark.parametrize(
    ("brokers", "leads"), [(OURS, "theirs"), (THEIRS, "theirs"), (THEIRS, "ours")], indirect=["brokers"]
)
async def test_a_group_of_both_kinds_shuts_out_and_begins(
    bootstrap: str, group: str, tmp_path: Path, leads: str
) -> None:
    """Whoever leads, tasks of both ask it; three connectors are more than one worker gets."""
    files = some_files(tmp_path)
    jvm = JvmWorker(tmp_path / "jvm", bootstrap, group, properties={"exactly.once.source.support": "enabled"})
    properties = worker_properties(bootstrap, group, exactly_once_source_support="enabled")
    names = ["a", "b", "c", "d"]
    await make_topics(bootstrap, *(f"{group}-{name}{turn}" for name in names for turn in range(2)))
    try:
        if leads == "theirs":
            await asyncio.to_thread(jvm.start)
        async with running(properties) as ours:
            if leads == "ours":
                await asyncio.to_thread(jvm.start)
            assert ours.engine.member.leads == (leads == "ours")
            for turn in range(2):
                for name, file in zip(names, files, strict=False):
                    config = source(file, f"{group}-{name}{turn}") | {"name": name}
                    answer = await request(ours, "PUT", f"/connectors/{name}/config", config)
                    assert answer.status in (200, 201), answer.text
                await until(
                    lambda turn=turn: all(  # type: ignore[misc]
                        ours.engine.configs.state.task_generation(name) == turn
                        and name not in ours.engine.configs.state.pending_fencing
                        and states(ours, name) == ["RUNNING", "RUNNING"]
                        for name in names
                    )
                )
            workers = {ours.herder.task_status(ConnectorTaskId(name, 0)).worker_id for name in names}
            assert len(workers) == 2
    finally:
        await asyncio.to_thread(jvm.stop)
