"""Kafka's transformations as column expressions; `Chain` is what a connector's `transforms` ask for."""
