"""Asks directories for a running broker: users in threads, at each login, and rights from time to time.

A `question` is one login, sent to a directory. The broker's port is `spanwire.broker.ports.Directory`.
"""
