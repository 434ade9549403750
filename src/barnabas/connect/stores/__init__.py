"""Connect's three internal topics with what is known of them: `configs`, `statuses`, `offsets`."""
