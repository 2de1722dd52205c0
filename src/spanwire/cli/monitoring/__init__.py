"""Commands that show a broker to monitoring: web, metrics, health."""
