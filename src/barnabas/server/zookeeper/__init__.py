"""A node in ZooKeeper mode: the metadata read from znodes and written to them."""
