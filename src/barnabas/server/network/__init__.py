"""Listeners, and what happens to a connection before its requests are served."""
