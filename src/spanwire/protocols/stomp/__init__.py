"""STOMP 1.0, 1.1 and 1.2: frames, codec, connection, the broker's side of it. Pure."""
