"""Objects of a broker as ActiveMQ's beans: names, attributes and operations, for Jolokia and ``spanwire query``.

A *bean* is an object of the table of views under ActiveMQ's name. A *family* has all beans whose names have the same
properties. Nothing is generic: attributes are those of the table, operations those of `executions`. The broker checks
the role of each operation.
"""
