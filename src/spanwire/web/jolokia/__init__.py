"""Jolokia's protocol at ``/api/jolokia`` for tools that read ActiveMQ's beans: version, list, search, read and exec.

The beans, and what may be done with them, are those of `spanwire.management.beans`.

Specification: https://jolokia.org/reference/html/manual/jolokia_protocol.html
"""
