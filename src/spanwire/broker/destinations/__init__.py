"""The destinations of a broker: creation, lookup, wildcard matching, removal when idle. Pure."""
