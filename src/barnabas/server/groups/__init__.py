"""Coordinators and the logs they keep their state in."""
