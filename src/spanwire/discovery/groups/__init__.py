"""Groups in which brokers find each other: settings, beacons, and the brokers seen so far. Pure.

- A *beacon* is a datagram that announces a connector. A *sighting* is a broker that a group has announced.
"""
