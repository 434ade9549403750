"""Forwarding to the active controller (KIP-590): the Envelope, what its answers mean, and nothing that does I/O."""
