"""Jolokia's protocol at ``/api/jolokia`` for tools that read ActiveMQ's beans.

The operations are version, list, search, read and exec.

The beans and their permitted operations stand in `spanwire.management.beans`.

Specification: https://jolokia.org/reference/html/manual/jolokia_protocol.html
"""
