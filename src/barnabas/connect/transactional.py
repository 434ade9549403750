"""The port to a producer that writes in transactions; `client.transactional_producer` is one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol, TypeAlias

from barnabas.client.config import ClientConfig


class TransactionalWriter(Protocol):
    """Writes records under one transactional id. Only one at a time can: the newest, which shuts the others out.

    Any method raises the client's ApiError; what means that another one has taken over is a ProducerFencedError.
    """

    async def init_transactions(self) -> None:
        """Shut out older writers with the same id, and end what they left open; before anything else."""

    async def begin(self) -> None:
        """Open a transaction."""

    async def send(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        partition: int | None = None,
        timestamp: int | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
    ) -> Awaitable[Any]:
        """Take a record into the open transaction; waits for room alone. `commit` waits for the record as well."""

    async def commit(self) -> None:
        """Have everything delivered, and seen from now on."""

    async def abort(self) -> None:
        """See to it that nothing of the transaction is ever seen."""

    async def close(self, *, flush: bool = True) -> None:
        """End the writer; what is open is aborted, without flush in a hurry."""


MakeWriter: TypeAlias = Callable[[ClientConfig], TransactionalWriter]
