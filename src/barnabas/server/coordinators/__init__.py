"""What every coordinator runs on: shards of a topic, their logs, and the runtime between them."""
