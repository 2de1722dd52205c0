"""Bridges: each forwards messages from its own broker to the consumers of a remote broker. Pure.

- The *local broker* is the source of the messages, the *remote broker* their target.
- A *duplex* link carries a bridge for each direction.
- A message is *in flight* from its dispatch until the local broker has its acknowledgement.
- A message is *confirmed* once the remote broker has answered.
"""
