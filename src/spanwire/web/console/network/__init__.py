"""The map of the network, routes on it, and findings about its configurations.

- A link is *known* from a broker that has it, or *reported* where only consumers beyond it are known.
- The *place* of a broker on the map follows from names and links alone, so nothing jumps when a state changes.
- A *cluster* stands for brokers of a large network that have more links among each other than to others.
"""
