"""Which records, and in which versions, the finalized feature levels allow."""

from __future__ import annotations

from typing import NamedTuple

from barnabas.model.features import MINIMUM_METADATA_VERSION, MetadataVersion


class Levels(NamedTuple):
    """The feature levels that decide how records are written. elr: eligible leader replicas are kept (KIP-966)."""

    metadata_version: int = int(MINIMUM_METADATA_VERSION)
    elr: bool = False

    @property
    def scram(self) -> bool:
        """SCRAM credentials may be in the log."""
        return self.metadata_version >= MetadataVersion.IBP_3_5_IV2

    @property
    def transactions(self) -> bool:
        """Metadata transactions may be in the log (KIP-868)."""
        return self.metadata_version >= MetadataVersion.IBP_3_6_IV1

    @property
    def delegation_tokens(self) -> bool:
        """Delegation tokens may be in the log."""
        return self.metadata_version >= MetadataVersion.IBP_3_6_IV2

    @property
    def directories(self) -> bool:
        """Replicas are assigned to log directories (KIP-858)."""
        return self.metadata_version >= MetadataVersion.IBP_3_7_IV2

    @property
    def controller_registration(self) -> bool:
        """Controllers register themselves (KIP-919)."""
        return self.metadata_version >= MetadataVersion.IBP_3_7_IV0

    @property
    def cordoned_directories(self) -> bool:
        """Brokers report directories that take no new replicas."""
        return self.metadata_version >= MetadataVersion.IBP_4_3_IV0

    @property
    def bumps_epoch_on_isr_shrink(self) -> bool:
        """Brokers of that age need a new leader epoch whenever the ISR shrinks (KAFKA-15021)."""
        return self.metadata_version < MetadataVersion.IBP_3_6_IV0

    @property
    def partition_version(self) -> int:
        """The version of PartitionRecord and of PartitionChangeRecord."""
        if self.metadata_version >= MetadataVersion.IBP_4_0_IV1:
            return 2
        return 1 if self.directories else 0

    @property
    def register_broker_version(self) -> int:
        """The version of RegisterBrokerRecord."""
        if self.cordoned_directories:
            return 4
        if self.directories:
            return 3
        return 2 if self.metadata_version >= MetadataVersion.IBP_3_4_IV0 else 1
