"""OpenWire versions 1 to 12: frames, codec, and the broker's side of a connection. Pure."""
