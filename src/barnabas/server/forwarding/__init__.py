"""What a broker asks of the active controller, for itself and for its clients (KIP-590)."""
