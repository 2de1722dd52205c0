"""Gossip: the brokers of a network tell each other who belongs to it, and link to each other.

- A *member* is a broker of whom was told lately, with its addresses.
- A *seed* is a broker whose address is configured.
"""
