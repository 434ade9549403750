"""Differences that are meant, and the APIs that Barnabas does not have yet."""

from __future__ import annotations

from typing import Final

from barnabas.wire.api_keys import ApiKey

from .comparison import Known

_SHARE: Final = "share groups (KIP-932) are not served yet"
_STREAMS: Final = "the streams protocol (KIP-1071) is not served yet"

_CRASHES: Final = (
    "Kafka answers UNKNOWN_SERVER_ERROR or closes the connection; here the request is refused with a reason"
)

NOT_OFFERED: Final[dict[str, str]] = {
    "SHARE_GROUP_HEARTBEAT": _SHARE,
    "SHARE_GROUP_DESCRIBE": _SHARE,
    "SHARE_FETCH": _SHARE,
    "SHARE_ACKNOWLEDGE": _SHARE,
    "INITIALIZE_SHARE_GROUP_STATE": _SHARE,
    "READ_SHARE_GROUP_STATE": _SHARE,
    "WRITE_SHARE_GROUP_STATE": _SHARE,
    "DELETE_SHARE_GROUP_STATE": _SHARE,
    "READ_SHARE_GROUP_STATE_SUMMARY": _SHARE,
    "STREAMS_GROUP_HEARTBEAT": _STREAMS,
    "STREAMS_GROUP_DESCRIBE": _STREAMS,
    "DESCRIBE_SHARE_GROUP_OFFSETS": _SHARE,
    "ALTER_SHARE_GROUP_OFFSETS": _SHARE,
    "DELETE_SHARE_GROUP_OFFSETS": _SHARE,
}
"""APIs that Apache Kafka offers clients and Barnabas does not, each with the reason."""

KNOWN: Final[tuple[Known, ...]] = (
    Known(
        "ApiVersions",
        rf"^\.api_keys\[({'|'.join(str(int(ApiKey[name])) for name in NOT_OFFERED)})\]$",
        "APIs that are not offered",
    ),
    Known(
        "ApiVersions",
        r"^\.supported_features\[(share|streams)\.version\]\.max_version$",
        "features whose APIs are not offered stay at level 0",
    ),
    Known(
        "Metadata.* (first|auto.1|auto_1|__consumer_offsets.x|collides)$",
        r"^\.topics",
        "a client that causes a topic to be made waits for it (docs/requirements.md, differences of KIP-590)",
    ),
    Known("Produce.*unknown codec", r"(error_code|log_start_offset)$", _CRASHES),
    Known("WriteTxnMarkers.* (negative producer|no epoch|. past the last of all epochs)", r"error_code$", _CRASHES),
    Known("(Fetch|ListOffsets).* isolation 2", "", _CRASHES),
    Known("OffsetFetch.* None 3$", r"error_code$", _CRASHES),
    Known(r"IncrementalAlterConfigs.*\[\((4|-1), 'retention.ms'", r"error_code$", _CRASHES),
    Known("AlterUserScramCredentials.*'salted_password': b''", r"error_code$", _CRASHES),
    Known("CreateAcls", r"results\[[^]]*\]\.error_code$", _CRASHES),
    Known("(Create|Describe|Delete)Acls", r"^(\.error_code)?$", _CRASHES),
    Known("CreatePartitions.* 20000", r"error_code$", _CRASHES),
    Known("ElectLeaders.* type 2", r"error_code$", _CRASHES),
    Known(
        "Produce.*odd-append.* log append time",
        r"record_errors\[#\d+\]$",
        "one record is enough to say that a batch has the wrong type of timestamps",
    ),
    Known("Fetch.* twice", r"\[0#1\]$", "a partition that is asked for twice is answered twice"),
    Known("AlterClientQuotas.* twice$", "", "what names the same thing twice is refused; Kafka takes one of the two"),
    Known("DescribeConfigs", r"configs\[barnabas\.", "our own keys"),
    Known(
        "AlterConfigs.* (nobody|alice)",
        r"error_code$",
        "who may not alter a configuration is not told what would be right",
    ),
    Known("AlterConfigs.*(log.cleaner|num.io).threads", r"error", "the number of these threads means nothing here"),
    Known("FindCoordinator.* 2$", r"error_code$", "share groups are not served yet"),
    Known(
        "DescribeQuorum",
        r"partitions\[0\].*.(high_watermark|log_end_offset|leader_epoch)$",
        "how many records and elections there have been; Kafka's controller resigns over some of these requests",
    ),
)
"""Differences that are meant."""
