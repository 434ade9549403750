"""The metadata quorum on disk and network: the shell around :mod:`barnabas.core.raft`."""
