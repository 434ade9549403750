"""The connectors that come with Barnabas."""
