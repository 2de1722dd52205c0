"""OpenWire versions 1 to 12: frames, codec, connection, the broker's side of it. Pure."""
