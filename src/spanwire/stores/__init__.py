"""Message stores behind the ports of the broker: memory and journal."""
