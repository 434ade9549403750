"""The connection rates of IP addresses follow the client quotas of the metadata log (KIP-612)."""

from __future__ import annotations

from typing import Final

from barnabas.core.metadata.delta import MetadataDelta
from barnabas.core.metadata.image import MetadataImage
from barnabas.core.metadata.quotas import IP
from barnabas.server.network.connection_limits import ConnectionLimits

CONNECTION_CREATION_RATE: Final = "connection_creation_rate"


class ConnectionRatePublisher:
    """Tells the connection limits which addresses have a rate of their own."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self._limits = limits

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Take up the quotas of a delta."""
        if not delta.client_quotas and not delta.snapshot:
            return
        rates: dict[str | None, int] = {}
        for entity, values in image.client_quotas.by_entity.items():
            if len(entity) == 1 and entity[0].type == IP and CONNECTION_CREATION_RATE in values:
                rates[entity[0].name] = int(values[CONNECTION_CREATION_RATE])
        default = rates.pop(None, None)
        self._limits.set_ip_rates({host: rate for host, rate in rates.items() if host is not None}, default)
