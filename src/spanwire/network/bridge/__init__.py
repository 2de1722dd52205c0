"""Bridges: each forwards messages that consumers of a remote broker want to that broker. Pure.

The *local broker* is the end where the bridge takes messages, the *remote broker* the one where it sends them; a duplex
link carries a bridge for each direction.
"""
