"""Tasks of Connect as work of Spark."""
