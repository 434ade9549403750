"""Clients' metrics on a broker (KIP-714): who may push, where it goes, and what is counted of it."""
