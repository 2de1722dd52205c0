"""OpenWire versions 1 to 12: frames, codec, and the broker's side of a connection. Pure.

- A *command* is one structure of the protocol; an *announcement* is a command about a producer or consumer.
- A *duplex* connection carries bridges in both directions.
- The *output buffer* has commands and dispatched messages until the end of the turn.
"""
