"""The load generator of ``spanwire bench``: producer and consumer processes, latencies and counts."""
