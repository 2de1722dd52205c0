"""Values of settings: booleans, numbers, sizes, secrets, and the diagnostics of a configuration."""
