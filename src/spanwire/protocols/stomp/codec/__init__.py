"""From octets to STOMP frames and back. Pure."""
