"""Wire protocols: convert bytes to commands and commands to bytes, one package per protocol. Pure.

- An *octet* is a byte of the wire. A *primitive map* is the encoding of properties and map messages.
- *Detection* finds the protocol of a connection by its first octets.
"""
