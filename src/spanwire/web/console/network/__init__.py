"""The map of the network, as one broker knows it.

- A link of the broker itself is *seen*: its state and counters are those of the broker.
- A link beyond is *reported*: the remote broker has announced consumers there. Its state is not known.
"""
