"""The STOMP codec: converts octets to frames and frames to octets. Pure."""
