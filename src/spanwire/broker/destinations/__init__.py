"""The destinations of a broker by name: made, found, matched by wildcards, removed when nobody uses them. Pure."""
