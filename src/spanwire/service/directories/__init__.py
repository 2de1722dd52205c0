"""Asks directories for a running broker: users in threads, at each login, and rights from time to time.

A `question` is one login that a directory is asked about. The broker's port is `spanwire.broker.ports.Directory`.
"""
