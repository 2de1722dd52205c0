"""The STOMP codec: octets to frames and back. Pure."""
