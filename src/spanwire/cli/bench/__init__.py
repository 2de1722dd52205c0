"""The load generator of ``spanwire bench``: producers and consumers in processes of their own, latencies and counts."""
