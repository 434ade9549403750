"""What clients measure of themselves and brokers collect (KIP-714): subscriptions, and the clients that push."""
