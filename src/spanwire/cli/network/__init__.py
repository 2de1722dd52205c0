"""``spanwire network``: networks of brokers in their files, in simulation, and while running."""
