"""The herder: the one owner of what a Connect worker knows and does. `worker_herder.WorkerHerder` puts it together."""
