"""How each response reports an error that concerns the whole request.

Most responses have an error code of their own. The others say it once for every element of the request; `EACH`
holds which lists correspond. What differs in more than that has a function below. KIP-219 puts the throttle
time into all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from barnabas.wire.api_keys import ApiKey, row_of
from barnabas.wire.declaration import FieldSpec, Message, Struct, field_specs
from barnabas.wire.errors import ErrorCode


@dataclass(frozen=True)
class Each:
    """For every element of the request's list, one in the response's. copied: response field -> request field
    ("" is the element itself); fixed: what the response's element holds besides; inner: a list within it.
    """

    request_list: str
    response_list: str
    copied: Mapping[str, str]
    inner: Each | None = None
    fixed: Mapping[str, object] = field(default_factory=dict)


_NAME: Final = {"name": "name"}
_GROUP: Final = {"group_id": ""}
_PARTITION: Final = {"partition_index": "partition_index"}
_PLAIN_PARTITION: Final = {"partition_index": ""}
_CONFIG_RESOURCE: Final = Each(
    "resources", "responses", {"resource_type": "resource_type", "resource_name": "resource_name"}
)
_SHARE_STATE: Final = Each(
    "topics", "results", {"topic_id": "topic_id"}, Each("partitions", "partitions", {"partition": "partition"})
)

EACH: Final[Mapping[ApiKey, Each]] = {
    ApiKey.PRODUCE: Each(
        "topic_data",
        "responses",
        {"name": "name", "topic_id": "topic_id"},
        Each("partition_data", "partition_responses", {"index": "index"}, fixed={"base_offset": -1}),
    ),
    ApiKey.FETCH: Each(
        "topics",
        "responses",
        {"topic": "topic", "topic_id": "topic_id"},
        Each(
            "partitions", "partitions", {"partition_index": "partition"}, fixed={"high_watermark": -1, "records": b""}
        ),
    ),
    ApiKey.LIST_OFFSETS: Each("topics", "topics", _NAME, Each("partitions", "partitions", _PARTITION)),
    ApiKey.METADATA: Each("topics", "topics", {"name": "name", "topic_id": "topic_id"}),
    ApiKey.OFFSET_COMMIT: Each(
        "topics", "topics", {"name": "name", "topic_id": "topic_id"}, Each("partitions", "partitions", _PARTITION)
    ),
    ApiKey.DESCRIBE_GROUPS: Each("groups", "groups", _GROUP),
    ApiKey.CREATE_TOPICS: Each("topics", "topics", _NAME),
    ApiKey.DELETE_RECORDS: Each(
        "topics", "topics", _NAME, Each("partitions", "partitions", _PARTITION, fixed={"low_watermark": -1})
    ),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: Each(
        "topics", "topics", {"topic": "topic"}, Each("partitions", "partitions", {"partition": "partition"})
    ),
    ApiKey.TXN_OFFSET_COMMIT: Each("topics", "topics", _NAME, Each("partitions", "partitions", _PARTITION)),
    ApiKey.CREATE_ACLS: Each("creations", "results", {}),
    ApiKey.DELETE_ACLS: Each("filters", "filter_results", {}),
    ApiKey.DESCRIBE_CONFIGS: Each(
        "resources", "results", {"resource_type": "resource_type", "resource_name": "resource_name"}
    ),
    ApiKey.ALTER_CONFIGS: _CONFIG_RESOURCE,
    ApiKey.CREATE_PARTITIONS: Each("topics", "results", _NAME),
    ApiKey.DELETE_GROUPS: Each("groups_names", "results", _GROUP),
    ApiKey.ELECT_LEADERS: Each(
        "topic_partitions",
        "replica_election_results",
        {"topic": "topic"},
        Each("partitions", "partition_result", {"partition_id": ""}),
    ),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _CONFIG_RESOURCE,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: Each(
        "topics", "responses", _NAME, Each("partitions", "partitions", _PARTITION)
    ),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: Each(
        "topics", "topics", _NAME, Each("partition_indexes", "partitions", _PLAIN_PARTITION)
    ),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: Each("users", "results", {}),
    ApiKey.ALTER_CLIENT_QUOTAS: Each("entries", "entries", {"entity": "entity"}),
    ApiKey.DESCRIBE_PRODUCERS: Each(
        "topics", "topics", _NAME, Each("partition_indexes", "partitions", _PLAIN_PARTITION)
    ),
    ApiKey.DESCRIBE_TRANSACTIONS: Each("transactional_ids", "transaction_states", {"transactional_id": ""}),
    ApiKey.CONSUMER_GROUP_DESCRIBE: Each("group_ids", "groups", _GROUP),
    ApiKey.SHARE_GROUP_DESCRIBE: Each("group_ids", "groups", _GROUP),
    ApiKey.STREAMS_GROUP_DESCRIBE: Each("group_ids", "groups", _GROUP),
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: Each("groups", "groups", {"group_id": "group_id"}),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: Each("topics", "topics", _NAME),
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: _SHARE_STATE,
    ApiKey.READ_SHARE_GROUP_STATE: _SHARE_STATE,
    ApiKey.WRITE_SHARE_GROUP_STATE: _SHARE_STATE,
    ApiKey.DELETE_SHARE_GROUP_STATE: _SHARE_STATE,
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: _SHARE_STATE,
}


@dataclass(frozen=True)
class _Error:
    """What is to be said, in which version of the response."""

    version: int
    code: ErrorCode
    message: str | None

    def put(self, target: Struct) -> None:
        """Fill the error fields that the target has in this version."""
        for spec in field_specs(type(target)):
            if self.version not in spec.on.versions:
                continue
            if spec.name == "error_code":
                setattr(target, spec.name, self.code)
            elif spec.name == "error_message" and (self.message is not None or self.version in spec.on.nullable):
                setattr(target, spec.name, self.message)


def refuse(
    request: Message, version: int, code: ErrorCode, message: str | None = None, throttle_ms: int = 0
) -> Message | None:
    """Give the response to a request that failed as a whole; None where the client waits for none (acks=0).

    message: None lets the client show its own text for the code; for UNKNOWN_SERVER_ERROR it is never sent,
    because it could tell what only the log should hold.
    """
    row = row_of(request)
    if row.key is ApiKey.PRODUCE and getattr(request, "acks", None) == 0:
        return None
    response: Any = row.response()
    error = _Error(version, code, None if code is ErrorCode.UNKNOWN_SERVER_ERROR else message)
    for spec in field_specs(row.response):
        if spec.name == "throttle_time_ms" and version in spec.on.versions:
            response.throttle_time_ms = throttle_ms
    error.put(response)
    special = _SPECIAL.get(row.key)
    each = EACH.get(row.key)
    if special is not None:
        special(request, response, error)
    elif each is not None:
        _fill(each, request, response, error)
    return response  # type: ignore[no-any-return]


def _fill(each: Each, source: Any, target: Any, error: _Error) -> None:
    element = _element_of(type(target), each.response_list)
    out: list[Struct] = []
    for item in getattr(source, each.request_list) or ():
        made = element()
        for name, origin in each.copied.items():
            setattr(made, name, getattr(item, origin) if origin else item)
        for name, value in each.fixed.items():
            setattr(made, name, value)
        error.put(made)
        if each.inner is not None:
            _fill(each.inner, item, made, error)
        out.append(made)
    setattr(target, each.response_list, out)


def _spec(cls: type[Struct], name: str) -> FieldSpec:
    return next(spec for spec in field_specs(cls) if spec.name == name)


def _element_of(cls: type[Struct], name: str) -> type[Any]:
    element = _spec(cls, name).struct
    assert element is not None
    return element


def _add_partitions_to_txn(request: Any, response: Any, error: _Error) -> None:
    if error.version < 4:
        by_partition = Each("partitions", "results_by_partition", _PLAIN_PARTITION, fixed={})
        _fill(
            Each("v3_and_below_topics", "results_by_topic_v3_and_below", _NAME, by_partition), request, response, error
        )
        for topic in response.results_by_topic_v3_and_below:
            for partition in topic.results_by_partition:
                partition.partition_error_code = error.code


def _alter_replica_log_dirs(request: Any, response: Any, error: _Error) -> None:
    by_partition = Each("partitions", "partitions", _PLAIN_PARTITION)
    results: list[Struct] = []
    for directory in request.dirs:
        _fill(Each("topics", "results", {"topic_name": "name"}, by_partition), directory, response, error)
        results += response.results
    response.results = results


def _alter_user_scram_credentials(request: Any, response: Any, error: _Error) -> None:
    result = _element_of(type(response), "results")
    users = {change.name for change in (*request.deletions, *request.upsertions)}
    response.results = [result(user=user) for user in sorted(users)]
    for made in response.results:
        error.put(made)


def _api_versions(_request: Any, response: Any, error: _Error) -> None:
    """To a version we do not speak, v0 is answered, with our own range so that the client can try again."""
    if error.code is ErrorCode.UNSUPPORTED_VERSION:
        row = row_of(response)
        made = _element_of(type(response), "api_keys")
        response.api_keys = [made(api_key=row.key, min_version=row.min_version, max_version=row.max_version)]


def _delegation_token(_request: Any, response: Any, error: _Error) -> None:
    response.issue_timestamp_ms = response.expiry_timestamp_ms = response.max_timestamp_ms = -1
    response.principal_type, response.principal_name = "User", "ANONYMOUS"
    if error.version >= 3:
        response.token_requester_principal_type, response.token_requester_principal_name = "User", "ANONYMOUS"


def _delete_topics(request: Any, response: Any, error: _Error) -> None:
    if error.version >= 6:
        _fill(Each("topics", "responses", {"name": "name", "topic_id": "topic_id"}), request, response, error)
    else:
        _fill(Each("topic_names", "responses", {"name": ""}), request, response, error)
    for made in response.responses:
        made.error_message = None


def _describe_client_quotas(_request: Any, response: Any, _error: _Error) -> None:
    response.entries = None


def _fetch(request: Any, response: Any, error: _Error) -> None:
    response.session_id = request.session_id if error.version >= 7 else 0
    if error.version < 13:
        _fill(EACH[ApiKey.FETCH], request, response, error)


def _find_coordinator(request: Any, response: Any, error: _Error) -> None:
    nowhere = {"node_id": -1, "host": "", "port": -1}
    if error.version >= 4:
        _fill(Each("coordinator_keys", "coordinators", {"key": ""}, fixed=nowhere), request, response, error)
    else:
        response.node_id, response.host, response.port = -1, "", -1


def _init_producer_id(_request: Any, response: Any, _error: _Error) -> None:
    response.producer_id, response.producer_epoch = -1, -1


def _join_group(_request: Any, response: Any, error: _Error) -> None:
    response.generation_id = -1
    response.protocol_name = None if error.version >= 7 else ""


def _metadata(request: Any, response: Any, error: _Error) -> None:
    _fill(EACH[ApiKey.METADATA], request, response, error)
    for topic in response.topics:
        topic.name = topic.name or ""


def _offset_fetch(request: Any, response: Any, error: _Error) -> None:
    if error.version >= 8:
        _fill(Each("groups", "groups", {"group_id": "group_id"}), request, response, error)
    elif error.version < 2:
        missing = {"committed_offset": -1, "metadata": ""}
        by_partition = Each("partition_indexes", "partitions", _PLAIN_PARTITION, fixed=missing)
        _fill(Each("topics", "topics", _NAME, by_partition), request, response, error)


def _write_txn_markers(request: Any, response: Any, error: _Error) -> None:
    by_partition = Each("partition_indexes", "partitions", _PLAIN_PARTITION)
    by_topic = Each("topics", "topics", _NAME, by_partition)
    _fill(Each("markers", "markers", {"producer_id": "producer_id"}, by_topic), request, response, error)
    for marker in response.markers:
        marker.topics = [topic for topic in marker.topics if topic.partitions]


_SPECIAL: Final[Mapping[ApiKey, Callable[[Any, Any, _Error], None]]] = {
    ApiKey.ADD_PARTITIONS_TO_TXN: _add_partitions_to_txn,
    ApiKey.ALTER_REPLICA_LOG_DIRS: _alter_replica_log_dirs,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _alter_user_scram_credentials,
    ApiKey.API_VERSIONS: _api_versions,
    ApiKey.CREATE_DELEGATION_TOKEN: _delegation_token,
    ApiKey.DELETE_TOPICS: _delete_topics,
    ApiKey.DESCRIBE_CLIENT_QUOTAS: _describe_client_quotas,
    ApiKey.FETCH: _fetch,
    ApiKey.FIND_COORDINATOR: _find_coordinator,
    ApiKey.INIT_PRODUCER_ID: _init_producer_id,
    ApiKey.JOIN_GROUP: _join_group,
    ApiKey.METADATA: _metadata,
    ApiKey.OFFSET_FETCH: _offset_fetch,
    ApiKey.WRITE_TXN_MARKERS: _write_txn_markers,
}
