"""The map of the network with routes, and findings about configurations.

- A link is *known* from a broker at one end, or *reported* where only consumers beyond are known.
- The *place* of a broker on the map follows from names and links alone, so the map stays still after a change of state.
- A *cluster* stands for brokers of a large network with more links among each other than to others.
"""
