"""Chaos of transactions: read-process-write loops in processes of their own, killed at random, that lose nothing."""
