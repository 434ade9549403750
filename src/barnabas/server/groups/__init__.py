"""The coordinator of groups."""
