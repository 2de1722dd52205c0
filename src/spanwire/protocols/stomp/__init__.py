"""STOMP 1.0, 1.1 and 1.2: frames, codec, and the broker's side of a connection. Pure."""
