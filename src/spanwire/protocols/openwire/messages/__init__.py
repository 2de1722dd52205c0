"""Messages in OpenWire's layout: octets, bodies and dispatch frames. Pure.

- The *layout* of a message is the place of each field in the octets.
- A *dispatch* is a frame around the unchanged octets of a message.
"""
