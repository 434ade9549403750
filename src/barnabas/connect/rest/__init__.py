"""The REST API of Kafka Connect: the public one, and the internal one between workers (KIP-507)."""
