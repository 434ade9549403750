"""Securing the znodes of a Kafka cluster while it serves, opening them, and taking either back (KIP-38)."""
