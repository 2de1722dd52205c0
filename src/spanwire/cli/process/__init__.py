"""Commands about a broker's process, configuration and store."""
