"""Interprets addresses: URIs of connectors and of remote brokers, with the options in them.

- An *option* stands after the question mark of a URI, spelled as in ActiveMQ.
- A *setting* of a network connector stands there too, after the options of its discovery agent.
"""
