"""How the leader of a Connect group shares connectors and tasks out: `leading` puts it all together."""
