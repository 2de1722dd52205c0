"""Where each stored message is, in memory, and which segments are still needed. Pure."""
