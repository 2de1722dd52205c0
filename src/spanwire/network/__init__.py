"""Networks of brokers: a bridge forwards messages to consumers of a remote broker.

- A *link* connects two brokers and lasts over reconnects; a *bridge* forwards messages in one direction of a link.
- *Demand* is the consumers of the remote broker. A *hop* is one link on the way of a message.
"""
