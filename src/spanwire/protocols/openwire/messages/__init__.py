"""Messages in OpenWire's layout: their octets, bodies, and the frames that carry them. Pure."""
