"""Nouns that every package shares: destinations, messages, ids, announcements, errors, time. Pure, no I/O."""
