"""Asks directories for a running broker: for users at each login, in threads, and for rights at times.

A `question` is one login, sent to a directory. The broker's port is `spanwire.broker.ports.Directory`.
"""
