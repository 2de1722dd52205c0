"""An OpenWire client: the protocol without I/O in `connection`, a blocking shell in `blocking`."""
