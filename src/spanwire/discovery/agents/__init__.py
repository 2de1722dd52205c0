"""Discovery agents: find brokers without a configured address.

- An agent *announces* connectors to its *group*, and reports the group's other connectors to a *listener*.
- A *sighting* is a broker heard of. A *farewell* announces its departure.
"""
