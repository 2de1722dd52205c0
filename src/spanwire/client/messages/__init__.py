"""Messages of a client: received ones as octets that are decoded on demand, and those that are sent. Pure."""
