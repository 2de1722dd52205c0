"""The definition of a bridge, the messages that it forwards, and the checks before it starts."""
