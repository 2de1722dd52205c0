"""The load generator of ``spanwire bench``: processes of producers and of consumers, latencies and counts."""
