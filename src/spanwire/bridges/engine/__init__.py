"""The state machine of a bridge: events and time in, actions out."""
