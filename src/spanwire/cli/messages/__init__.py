"""Commands about destinations and their messages."""
