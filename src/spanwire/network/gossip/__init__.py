"""Gossip: the brokers of a network tell each other the names of all members, and link to each other.

- A *member* is a broker mentioned lately, with addresses.
- A *seed* is a broker whose address is configured.
"""
