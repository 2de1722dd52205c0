"""Messages read back from the disk. Pure."""
