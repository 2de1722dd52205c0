"""Messages in OpenWire's layout: octets, bodies and dispatch frames. Pure."""
