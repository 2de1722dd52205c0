"""Commands about destinations and messages."""
