"""Discovery of other brokers: addresses and URIs; `agents` has one module for each protocol.

- A *group* is a set of brokers that find each other; a *beacon* announces a connector to a group.
- A *sighting* is a broker known by its beacons, *lost* after a long silence.
- A *composite* URI contains other URIs: ``static:(tcp://host1:61616,tcp://host2:61616)``.
"""
