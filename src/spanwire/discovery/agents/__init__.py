"""Discovery agents: ways to find brokers that nobody has listed."""
