"""Discovery groups of brokers: settings, beacons, and the brokers seen so far. Pure.

- A *beacon* is a datagram that announces a connector. A *sighting* is a broker announced in a group.
"""
