"""The definition of a bridge, the forwarded messages, and the checks before the start."""
