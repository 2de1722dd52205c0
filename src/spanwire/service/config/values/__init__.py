"""Values of settings: truth, numbers, sizes, secrets, and the diagnostics of a configuration."""
