"""Jolokia's protocol at ``/api/jolokia`` for tools that read ActiveMQ's beans: version, list, search, read and exec.

A *bean* is an object of the table of views under ActiveMQ's name. A *family* has all beans whose names have the same
properties. Nothing is generic: attributes are those of the table, operations those of `executions`. The broker checks
the role of each operation.

Specification: https://jolokia.org/reference/html/manual/jolokia_protocol.html
"""
