"""A bridge: takes what consumers of a remote broker ask for and forwards it to that broker. Pure.

The *local broker* is the end where the bridge takes messages, the *remote broker* the one where it sends them; a duplex
link carries a bridge for each direction.
"""
