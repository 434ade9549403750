"""The replicas of a broker: leading, following, and waiting for one another."""
