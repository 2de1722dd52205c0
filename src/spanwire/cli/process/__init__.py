"""Commands about a broker's process, its configuration and its store."""
