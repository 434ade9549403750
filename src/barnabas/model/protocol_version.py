"""The levels of `inter.broker.protocol.version`: how old brokers of a cluster in ZooKeeper mode may be.

Such a cluster is upgraded in two steps: first all brokers get the new program and keep the old level, then they get
the new level one by one. What a broker may ask of others, or write to znodes, goes by its own level.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from barnabas.model.features import MetadataVersion


class ProtocolVersion(IntEnum):
    """The levels up to Kafka 3.9's, the last release that knows ZooKeeper. Their order is all that the numbers say."""

    IBP_0_8_0 = 0
    IBP_0_8_1 = 1
    IBP_0_8_2 = 2
    IBP_0_9_0 = 3
    IBP_0_10_0_IV0 = 4
    IBP_0_10_0_IV1 = 5
    IBP_0_10_1_IV0 = 6
    IBP_0_10_1_IV1 = 7
    IBP_0_10_1_IV2 = 8
    IBP_0_10_2_IV0 = 9
    IBP_0_11_0_IV0 = 10
    IBP_0_11_0_IV1 = 11
    IBP_0_11_0_IV2 = 12
    IBP_1_0_IV0 = 13
    IBP_1_1_IV0 = 14
    IBP_2_0_IV0 = 15
    IBP_2_0_IV1 = 16
    IBP_2_1_IV0 = 17
    IBP_2_1_IV1 = 18
    IBP_2_1_IV2 = 19
    IBP_2_2_IV0 = 20
    IBP_2_2_IV1 = 21
    IBP_2_3_IV0 = 22
    IBP_2_3_IV1 = 23
    IBP_2_4_IV0 = 24
    IBP_2_4_IV1 = 25
    IBP_2_5_IV0 = 26
    IBP_2_6_IV0 = 27
    IBP_2_7_IV0 = 28
    IBP_2_7_IV1 = 29
    IBP_2_7_IV2 = 30
    IBP_2_8_IV0 = 31
    IBP_2_8_IV1 = 32
    IBP_3_0_IV0 = 33
    IBP_3_0_IV1 = 34
    IBP_3_1_IV0 = 35
    IBP_3_2_IV0 = 36
    IBP_3_3_IV0 = 37
    IBP_3_3_IV1 = 38
    IBP_3_3_IV2 = 39
    IBP_3_3_IV3 = 40
    IBP_3_4_IV0 = 41
    IBP_3_5_IV0 = 42
    IBP_3_5_IV1 = 43
    IBP_3_5_IV2 = 44
    IBP_3_6_IV0 = 45
    IBP_3_6_IV1 = 46
    IBP_3_6_IV2 = 47
    IBP_3_7_IV0 = 48
    IBP_3_7_IV1 = 49
    IBP_3_7_IV2 = 50
    IBP_3_7_IV3 = 51
    IBP_3_7_IV4 = 52
    IBP_3_8_IV0 = 53
    IBP_3_9_IV0 = 54

    def __str__(self) -> str:
        return ".".join(self.name.removeprefix("IBP_").split("_")).replace(".IV", "-IV")

    @property
    def release(self) -> str:
        """The release that brought it, `2.8` or `0.10.2`."""
        return str(self).partition("-")[0]

    @classmethod
    def parse(cls, text: str) -> ProtocolVersion:
        """Give the level that a text means, in any spelling that Kafka 3.9 takes: a level (`2.7-IV1`), a release
        (`2.7`, `0.10.2`), its newest level, or a bug fix of one (`2.7.2`), which is the same. ValueError for others.
        """
        parts = text.strip().split(".")
        wanted = ".".join(parts[: 3 if parts[0] == "0" else 2])
        for version in reversed(cls):
            if wanted in (str(version), version.release):
                return version
        raise ValueError(f"want a release from {_FIRST.release} to {_LAST.release}, or one of its levels, as 2.7-IV1")

    @property
    def topic_ids(self) -> bool:
        """Its controller gives topics ids (KIP-516), by which they are known here."""
        return self >= self.IBP_2_8_IV0

    @property
    def forwards(self) -> bool:
        """Its brokers forward what changes the cluster to the controller; older ones write znodes themselves (F-42).

        KIP-590 leaves the level open, and wants principals that can be serialized from 3.0 on: the same step. Apache
        Kafka 3.9.1 forwards only while it migrates to KRaft, never in ZooKeeper mode for good, and its controller
        closes connections on which an Envelope comes. So a forwarded request wants a controller of ours.
        """
        return self >= self.IBP_3_0_IV0


_FIRST: Final = ProtocolVersion.IBP_0_8_0
_LAST: Final = ProtocolVersion.IBP_3_9_IV0
LATEST_PROTOCOL_VERSION: Final = _LAST
IMAGE_LEVEL: Final = MetadataVersion.IBP_3_7_IV1
"""The metadata.version of images in ZooKeeper mode, whatever the level of the brokers is. The gates of
`metadata.version` are about who can read a log's records. Nobody reads these, and what they guard, SCRAM and tokens
among it, ZooKeeper has held for longer; but it knows nothing of log directories, which the next level brings."""
