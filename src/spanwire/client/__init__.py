"""The OpenWire client: a core without I/O, and the shells `aio` and `blocking`."""
