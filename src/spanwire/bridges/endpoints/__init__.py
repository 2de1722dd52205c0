"""Endpoints of routes without a broker: files, timers and HTTP.

An open endpoint has the methods of `spanwire.bridges.ports.MessageSource` or `MessageTarget` needed by a route.
"""
