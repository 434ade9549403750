"""Every request of one table to a JVM worker and to ours: the same statuses, the same JSON."""

from __future__ import annotations

from urllib.parse import unquote

import pytest

from tests.connect.rest import versions
from tests.connect.rest.odd_requests import odd_requests
from tests.connect.rest.sides import FOLDER, Side, Step, compare

pytestmark = [pytest.mark.peer, pytest.mark.spark]

JSON = "org.apache.kafka.connect.json.JsonConverter"
STRING = "org.apache.kafka.connect.storage.StringConverter"
TRANSFORMS = "org.apache.kafka.connect.transforms"
SOURCE = {"connector.class": "FileStreamSource", "file": f"{FOLDER}/in.txt", "topic": "lines", "tasks.max": "1"}
SINK = {"connector.class": "FileStreamSink", "file": f"{FOLDER}/out.txt", "topics": "lines", "tasks.max": "1"}
STRANGE = ("a%20b", "fl%C3%BCge", "a%3Fb", "a%23b", "a+b")
"""Names with a space, letters outside ASCII, a question mark and more, escaped."""
REFUSED_BY_THE_JVM = ("a%2Fb", "100%25", "%E2%9C%88")
"""Names with a slash or a percent sign, whose path a JVM worker answers with 400, and beyond Latin-1, with 500."""

Sides = tuple[Side, Side]


def test_what_needs_no_connector(sides: Sides) -> None:
    compare(
        sides,
        [
            Step("GET", "/"),
            Step("GET", "/health"),
            Step("GET", "/connectors", status_only=True),
            Step("HEAD", "/connectors", status_only=True),
            Step("OPTIONS", "/connectors", status_only=True),
            Step("GET", "/nope"),
            Step("GET", "/connectors/x/nope"),
            Step("POST", "/"),
            Step("DELETE", "/connectors"),
            Step("PUT", "/connectors", {}),
            Step("PATCH", "/connectors/nope", {}),
            Step("POST", "/connector-plugins", {}),
            Step("GET", "/connector-plugins"),
            Step("GET", "/connector-plugins?connectorsOnly=true"),
            Step("GET", "/connector-plugins?connectorsOnly=false"),
            Step("GET", "/connector-plugins/Nope/config"),
            Step("GET", "/connector-plugins/FileStreamSource/config"),
            Step("GET", "/connector-plugins/FileStreamSinkConnector/config"),
            Step("GET", "/connector-plugins/FileStreamSink/config?version=latest"),
            Step("GET", "/connector-plugins/FileStreamSink/config?version=0.0.1"),
            Step("GET", f"/connector-plugins/{JSON}/config"),
            Step("GET", f"/connector-plugins/{STRING}/config"),
        ],
    )


def test_what_is_unusual(sides: Sides) -> None:
    compare(sides, odd_requests())


@pytest.mark.requirement("C-26")
def test_what_is_not_there(sides: Sides) -> None:
    compare(
        sides,
        [
            Step(method, f"/connectors/{name}{path}", body)
            for name in ("nope", *STRANGE)
            for method, path, body in (
                ("GET", "", None),
                ("GET", "/config", None),
                ("GET", "/status", None),
                ("GET", "/tasks", None),
                ("GET", "/topics", None),
                ("GET", "/offsets", None),
                ("GET", "/tasks/0/status", None),
                ("POST", "/restart", None),
                ("POST", "/restart?includeTasks=true", None),
                ("POST", "/tasks/0/restart", None),
                ("PUT", "/pause", None),
                ("PUT", "/resume", None),
                ("PUT", "/stop", None),
                ("PUT", "/topics/reset", None),
                ("PATCH", "/config", {"a": "b"}),
                ("PATCH", "/offsets", {"offsets": [{"partition": {"a": 1}, "offset": None}]}),
                ("DELETE", "/offsets", None),
                ("DELETE", "", None),
            )
        ]
        + [
            Step("GET", "/connectors/nope/tasks/x/status"),
            Step("POST", "/connectors/nope/tasks/x/restart"),
            Step("GET", "/connectors/nope/tasks/-1/status"),
            Step("GET", "/connectors/nope/tasks/99999999999/status"),
        ],
    )


def test_what_cannot_be_read(sides: Sides) -> None:
    """Bodies that are no JSON, of the wrong type, or of the wrong shape."""
    plain = {"Content-Type": "text/plain"}
    created = {"name": "never", "config": SINK}
    bodies: tuple[object, ...] = (
        b"",
        b"{",
        b"nonsense",
        b"null",
        b"[]",
        b"1",
        b'"text"',
        b"{}",
        b'{"a": {"b": 1}}',
        b'{"a": [1]}',
        b'{"name": 1}',
        b'{"a": null}',
    )
    compare(
        sides,
        [
            Step(method, path, body)
            for body in bodies
            for method, path in (
                ("POST", "/connectors"),
                ("PUT", "/connectors/never/config"),
                ("PATCH", "/connectors/never/config"),
                ("PATCH", "/connectors/never/offsets"),
                ("PUT", "/connector-plugins/FileStreamSink/config/validate"),
                ("PUT", "/admin/loggers/some.logger"),
            )
        ]
        + [
            Step("POST", "/connectors", created, plain),
            Step("PUT", "/connectors/never/config", SINK, plain),
            Step("PUT", "/connectors/never/config", SINK, {"Content-Type": "application/xml"}),
            Step("POST", "/connectors", {**created, "config": None}),
            Step("POST", "/connectors", {**created, "config": []}),
            Step("POST", "/connectors", {**created, "nonsense": 1}),
            Step("POST", "/connectors", {**created, "initial_state": "nonsense"}),
            Step("POST", "/connectors", {**created, "name": ""}),
            Step("POST", "/connectors", {**created, "name": "other", "config": {**SINK, "name": "never"}}),
            Step("POST", "/connectors", {"name": "never", "config": {"connector.class": "Nope"}}),
            Step("POST", "/connectors", {"name": "never", "config": {"connector.class": JSON}}),
            Step("POST", "/connectors", {"name": "never", "config": {"topics": "x"}}),
            Step("POST", "/connectors", {"name": "never", "config": {"connector.class": "FileStreamSink"}}),
            Step("PUT", "/connectors/never/config", {**SINK, "tasks.max": None}),
            Step("PUT", "/connectors/never/config", {**SINK, "tasks.max": "many"}),
            Step("PUT", "/connectors/never/config", {**SINK, "name": "other"}),
            Step("PUT", "/connectors/never/config", {"file": "x"}),
            Step("GET", "/connectors/never"),
        ],
    )


def test_loggers(sides: Sides) -> None:
    compare(
        sides,
        [
            Step("GET", "/admin/loggers/root"),
            Step("GET", "/admin/loggers/no.such.logger"),
            Step("PUT", "/admin/loggers/some.logger", {"level": "DEBUG"}),
            Step("GET", "/admin/loggers/some.logger"),
            Step("PUT", "/admin/loggers/some.logger", {"level": "warn"}),
            Step("GET", "/admin/loggers/some.logger"),
            Step("PUT", "/admin/loggers/some.logger", {"level": "LOUD"}),
            Step("PUT", "/admin/loggers/some.logger", {}),
            Step("PUT", "/admin/loggers/some.logger?scope=nonsense", {"level": "INFO"}),
            Step("PUT", "/admin/loggers/some.logger?scope=cluster", {"level": "INFO"}),
            Step("PUT", "/admin/loggers/some.logger?scope=cluster", {"level": "LOUD"}),
            Step("POST", "/admin/loggers/some.logger", {"level": "INFO"}),
        ],
    )


VALIDATED = (
    {**SINK, "name": "x"},
    {**SOURCE, "name": "x"},
    {"connector.class": "org.apache.kafka.connect.file.FileStreamSinkConnector", "name": "x", "topics": "a"},
    {"connector.class": "FileStreamSink"},
    {"connector.class": "FileStreamSource"},
    {"connector.class": "FileStreamSource", "name": "x", "topic": ""},
    {"connector.class": "FileStreamSink", "name": "x", "topics": ","},
    {"connector.class": "FileStreamSink", "name": "x", "topics": "a", "topics.regex": "a.*"},
    {**SINK, "name": "x", "errors.deadletterqueue.topic.name": "lines"},
    {**SINK, "name": "x", "topics": "", "topics.regex": "a.*", "errors.deadletterqueue.topic.name": "ab"},
    {**SINK, "name": "x", "tasks.max": None},
    {
        **SINK,
        "name": "x",
        "key.converter": JSON,
        "key.converter.schemas.enable": "x",
        "key.converter.decimal.format": "q",
    },
    {**SINK, "name": "x", "key.converter": "StringConverter", "value.converter": "JsonConverter"},
    {**SINK, "name": "x", "header.converter": "SimpleHeaderConverter", "key.converter": "Nope"},
    {**SINK, "name": "x", "header.converter": "Integer"},
    {**SINK, "name": "x", "header.converter": "SimpleHeader", "key.converter": "Json"},
    {**SINK, "name": "x", "header.converter": "StringConverter", "header.converter.converter.encoding": "ASCII"},
    {
        **SINK,
        "name": "x",
        "transforms": "t,u",
        "transforms.t.type": f"{TRANSFORMS}.Cast$Value",
        "transforms.t.spec": "int8",
        "transforms.u.type": f"{TRANSFORMS}.RegexRouter",
        "transforms.u.predicate": "p",
        "transforms.u.negate": "true",
        "transforms.u.regex": "a",
        "transforms.u.replacement": "b",
        "predicates": "p",
        "predicates.p.type": f"{TRANSFORMS}.predicates.TopicNameMatches",
        "predicates.p.pattern": "a.*",
    },
    {
        **SINK,
        "name": "x",
        "transforms": "t,u,v,w",
        "transforms.t.type": f"{TRANSFORMS}.Cast$Value",
        "transforms.t.negate": "true",
        "transforms.t.spec": "int8",
        "transforms.u.type": JSON,
        "transforms.v.type": "Nope",
        "predicates": "p",
    },
    {
        "connector.class": "FileStreamSink",
        "name": "a\x01b",
        "tasks.max": "0",
        "topics": "a,a",
        "topics.regex": "[",
        "errors.tolerance": "some",
        "errors.retry.timeout": "x",
        "errors.log.enable": "yep",
        "errors.deadletterqueue.topic.replication.factor": "99999",
        "transforms": "a,a",
        "predicates": "p,p",
        "config.action.reload": "q",
    },
    {
        **SOURCE,
        "name": "x",
        "batch.size": "q",
        "exactly.once.support": "required",
        "transaction.boundary.interval.ms": "-1",
        "offsets.storage.topic": "",
        "topic.creation.groups": "a,a",
        "tasks.max": "x",
        "unknown": "y",
    },
    {**SOURCE, "name": "x", "errors.tolerance": "ALL", "exactly.once.support": "REQUESTED", "tasks.max": " 3 "},
)
"""With no errors, some, and nothing but errors."""


def test_validation(sides: Sides) -> None:
    # A value that is missing is complained of once here, by a JVM worker also by each check; it has more converters.
    not_compared = ("error_count", "recommended_values")
    validate = "/connector-plugins/FileStreamSink/config/validate"
    own_group = {"consumer.override.group.id": "side-by-side"}
    compare(
        sides,
        [
            Step("PUT", f"/connector-plugins/{config['connector.class']}/config/validate", config, ignored=not_compared)
            for config in VALIDATED
        ]
        + [
            Step("PUT", validate, {**SINK, "name": "x", **own_group}, ignored=(*not_compared, "importance")),
            Step("PUT", "/connector-plugins/FileStreamSink/config/validate", {"connector.class": "FileStreamSource"}),
            Step("PUT", "/connector-plugins/FileStreamSink/config/validate", {}),
            Step("PUT", "/connector-plugins/Nope/config/validate", {"connector.class": "Nope"}),
        ],
    )  # fmt: skip


@pytest.mark.requirement("C-26")
def test_ranges_of_versions(sides: Sides) -> None:
    compare(sides, versions.validations(ignored=("recommended_values",)) + versions.definitions())


def test_transformations_and_predicates_declare_the_same(sides: Sides) -> None:
    theirs, ours = (side.ask(Step("GET", "/connector-plugins?connectorsOnly=false")).body for side in sides)
    names = [each["class"] for each in theirs if each["type"] in ("transformation", "predicate")]
    assert names == [each["class"] for each in ours if each["type"] in ("transformation", "predicate")]
    compare(sides, [Step("GET", f"/connector-plugins/{name.replace('$', '%24')}/config") for name in names])


@pytest.mark.requirement("C-26")
def test_a_source_and_a_sink_from_creation_to_deletion(sides: Sides) -> None:
    compare(
        sides,
        [
            Step("POST", "/connectors", {"name": "in", "config": SOURCE}),
            Step("POST", "/connectors", {"name": "in", "config": SOURCE}, conflicts=True),
            Step("PUT", "/connectors/out/config", SINK),
        ],
    )
    for side in sides:
        side.until("/connectors/in", "RUNNING", "RUNNING")
        side.until("/connectors/out", "RUNNING", "RUNNING")
        side.until_said("/connectors/in/topics", lambda said: said["in"]["topics"])
        side.until_said("/connectors/out/topics", lambda said: said["out"]["topics"])
        side.until_said("/connectors/in/offsets", lambda said: said["offsets"])
        side.until_said("/connectors/out/offsets", lambda said: said["offsets"])
    # At least once is all that either promises. But a JVM source that is moved before its offsets are flushed, once a
    # minute, sends its lines once more; ours keeps them with each batch, and nothing here cuts one off.
    sides[1].until_said("/connectors/out/offsets", lambda said: said["offsets"][0]["offset"] == {"kafka_offset": 2})
    looked_at = [
        Step("GET", f"/connectors{path}", ignored=("kafka_offset",))
        for path in (
            "?expand=status", "?expand=info", "?expand=info&expand=status", "?expand=nonsense", "?expand=",
            *(f"/{name}{what}" for name in ("in", "out") for what in (
                "", "/config", "/status", "/tasks", "/topics", "/offsets", "/tasks/0/status", "/tasks/7/status",
            )),
        )
    ]  # fmt: skip
    position = {"partition": {"filename": f"{FOLDER}/in.txt"}, "offset": {"position": 4}}
    of_lines = {"kafka_topic": "lines", "kafka_partition": 0}
    second_line = {"partition": of_lines, "offset": {"kafka_offset": 1}}
    compare(
        sides,
        [
            *looked_at,
            Step("PUT", "/connectors/out/config", SINK),
            Step("PATCH", "/connectors/out/config", {"tasks.max": "1", "errors.tolerance": "all"}),
            Step("PATCH", "/connectors/out/config", {"errors.tolerance": None}),
            Step("PATCH", "/connectors/out/config", {"tasks.max": "none"}),
            Step("PATCH", "/connectors/out/config", {"name": "other"}),
            Step(
                "PATCH",
                "/connectors/out/offsets",
                {"offsets": [second_line]},
            ),
            Step("DELETE", "/connectors/out/offsets"),
            Step("PATCH", "/connectors/in/offsets", {"offsets": [position]}),
            Step("POST", "/connectors/in/tasks/7/restart"),
        ],
    )
    for side in sides:
        side.until("/connectors/out", "RUNNING", "RUNNING")
    for what in (
        "restart",
        "tasks/0/restart",
        "restart?onlyFailed=true",
        "restart?onlyFailed=true&includeTasks=true",
        "restart?includeTasks=true",
    ):
        compare(sides, [Step("POST", f"/connectors/in/{what}")])
        for side in sides:
            side.until("/connectors/in", "RUNNING", "RUNNING")
    compare(sides, [Step("PUT", "/connectors/in/pause"), Step("PUT", "/connectors/in/pause")])
    for side in sides:
        side.until("/connectors/in", "PAUSED", "PAUSED")
    compare(sides, [Step("GET", "/connectors/in/status"), Step("PUT", "/connectors/in/resume")])
    for side in sides:
        side.until("/connectors/in", "RUNNING", "RUNNING")
    compare(sides, [Step("PUT", "/connectors/in/stop"), Step("PUT", "/connectors/out/stop")])
    for side in sides:
        side.until("/connectors/in", "STOPPED")
        side.until("/connectors/out", "STOPPED")
    compare(
        sides,
        [
            Step("GET", "/connectors/in"),
            Step("GET", "/connectors/in/tasks"),
            Step("GET", "/connectors/in/offsets"),
            Step("GET", "/connectors/out/offsets", ignored=("kafka_offset",)),
            Step("POST", "/connectors/in/restart?includeTasks=true"),
            Step("PATCH", "/connectors/in/offsets", {"offsets": []}),
            Step("PATCH", "/connectors/in/offsets", {"offsets": [position]}),
            Step("GET", "/connectors/in/offsets"),
            Step("PATCH", "/connectors/in/offsets", {"offsets": [{**position, "offset": None}]}),
            Step("GET", "/connectors/in/offsets"),
            Step("DELETE", "/connectors/in/offsets"),
            Step("PATCH", "/connectors/out/offsets", {"offsets": [second_line]}),
            Step("GET", "/connectors/out/offsets"),
            Step("PATCH", "/connectors/out/offsets", {"offsets": [{"partition": {"x": 1}, "offset": None}]}),
            Step("PATCH", "/connectors/out/offsets", {"offsets": [{"partition": of_lines, "offset": {"y": 1}}]}),
            Step("PATCH", "/connectors/out/offsets",
                 {"offsets": [{"partition": {**of_lines, "kafka_topic": "none"}, "offset": {"kafka_offset": 1}}]}),
            Step("DELETE", "/connectors/out/offsets"),
            Step("GET", "/connectors/out/offsets"),
            Step("PUT", "/connectors/in/topics/reset"),
        ],
    )  # fmt: skip
    for side in sides:
        side.until_said("/connectors/in/topics", lambda said: said == {"in": {"topics": []}})
    compare(
        sides,
        [
            Step("DELETE", "/connectors/in"),
            Step("DELETE", "/connectors/out"),
            Step("DELETE", "/connectors/out"),
            Step("GET", "/connectors/out"),
        ],
    )  # fmt: skip


@pytest.mark.requirement("H-28")
def test_names_that_a_jvm_worker_refuses(ours: Side) -> None:
    for name in REFUSED_BY_THE_JVM:
        assert ours.ask(Step("GET", f"/connectors/{name}")).status == 404
        created = ours.ask(Step("POST", "/connectors", _stopped(name)))
        assert (created.status, created.location) == (201, f"/connectors/{name}")
        ours.until(f"/connectors/{name}", "STOPPED")
        assert ours.ask(Step("PUT", f"/connectors/{name}/config", SOURCE)).body["name"] == unquote(name)
        assert ours.ask(Step("DELETE", f"/connectors/{name}")).status == 204


@pytest.mark.requirement("H-28")
def test_names_with_anything_in_them(sides: Sides) -> None:
    for name in STRANGE:
        compare(sides, [Step("POST", "/connectors", _stopped(name))])
    for side in sides:
        for name in STRANGE:
            side.until(f"/connectors/{name}", "STOPPED")
    for name in STRANGE:
        compare(
            sides,
            [
                Step("GET", f"/connectors/{name}"),
                Step("GET", f"/connectors/{name}/config"),
                Step("GET", f"/connectors/{name}/status"),
                Step("GET", f"/connectors/{name}/tasks"),
                Step("PUT", f"/connectors/{name}/config", SOURCE),
                Step("PATCH", f"/connectors/{name}/config", {"batch.size": "7"}),
                Step("DELETE", f"/connectors/{name}"),
                Step("GET", f"/connectors/{name}"),
            ],
        )


def _stopped(name: str) -> object:
    return {"name": unquote(name), "config": SOURCE, "initial_state": "STOPPED"}


def test_a_connector_begins_as_it_is_asked_to(sides: Sides) -> None:
    for state, found in (("STOPPED", ["STOPPED"]), ("PAUSED", ["PAUSED"]), ("running", ["RUNNING", "RUNNING"])):
        name = f"begins-{state}"
        config = SOURCE | {"topic": "begun"}  # another test counts what is in `lines`
        compare(sides, [Step("POST", "/connectors", {"name": name, "config": config, "initial_state": state})])
        for side in sides:
            side.until(f"/connectors/{name}", *found)
        compare(sides, [Step("GET", f"/connectors/{name}/status"), Step("DELETE", f"/connectors/{name}")])
