"""What this node's own disk says of rules and credentials, before it knows what is committed.

The nodes of a quorum have to let each other in before anything can be committed. What a node goes by till then is its
newest snapshot and the whole of its log, or, in a new cluster, the records that it was formatted with: it has forgotten
nothing that it ever knew, however old that may be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from barnabas.core.metadata.image import MetadataImage
from barnabas.core.metadata.runs import replay
from barnabas.core.replicated import VersionedRecord
from barnabas.wire.records.access_control_entry_record import AccessControlEntryRecord
from barnabas.wire.records.remove_access_control_entry_record import RemoveAccessControlEntryRecord
from barnabas.wire.records.remove_user_scram_credential_record import RemoveUserScramCredentialRecord
from barnabas.wire.records.user_scram_credential_record import UserScramCredentialRecord

_WANTED: Final = (
    AccessControlEntryRecord,
    RemoveAccessControlEntryRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)


class OwnMetadata:
    """See the module. records: gives those on the disk, in order; they are read once, when somebody needs them."""

    def __init__(self, records: Callable[[], Iterator[VersionedRecord]]) -> None:
        self._records = records
        self._read: MetadataImage | None = None

    def image(self) -> MetadataImage:
        """Give the rules and credentials, and nothing else."""
        if self._read is None:
            wanted = [one for one in self._records() if isinstance(one.record, _WANTED)]
            self._read = replay(MetadataImage.EMPTY, wanted)
        return self._read
