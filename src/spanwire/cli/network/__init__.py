"""``spanwire network``: networks of brokers, from their files, on paper, and as they run."""
