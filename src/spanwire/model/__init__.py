"""Nouns every layer shares: destinations, messages, ids, acknowledgements, errors, the environment. Pure."""
