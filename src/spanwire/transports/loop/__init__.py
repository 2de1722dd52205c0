"""The event loop's work: octets of one socket, and the end of each turn."""
