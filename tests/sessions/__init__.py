"""SASL sessions that end (KIP-368): on the server, on our clients, and with the clients of others."""
