"""Checks the configuration files of a network for faults: ``spanwire network lint``.

- A *network plan* computes routes on paper, by the rules of bridges.
- A *fault* contradicts the intention of the configuration; a *hint* does so only for certain clients.
- A *probe* is a destination for trying out the rules of a network.
"""
