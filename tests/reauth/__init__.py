"""The re-authentication kit: what it sees, what it says, and what clients do (KIP-368)."""
