"""The index of stored messages in memory, and the segments that are still needed. Pure."""
