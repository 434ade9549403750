"""What Kafka Connect's workers agree on: the thinking half of `barnabas.connect`, without I/O, clock or chance."""
