"""Endpoints of routes that are no brokers: files, timers and HTTP.

An open endpoint has the methods of `spanwire.bridges.ports.MessageSource` or `MessageTarget` that a route calls.
"""
