"""How much a client may do, and how it is slowed down (KIP-13, KIP-124, KIP-257, KIP-599)."""
