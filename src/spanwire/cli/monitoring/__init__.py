"""Commands for monitoring of a broker: web, metrics, health."""
