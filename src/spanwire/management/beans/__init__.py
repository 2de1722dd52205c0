"""Objects of a broker as ActiveMQ's beans: names, attributes and operations.

Jolokia and ``spanwire query`` show the beans. A *bean* is an object of the table of views under ActiveMQ's name. A
*family* has all beans with the same properties in the name. Nothing is generic: attributes are those of the table,
operations those of `executions`. The broker checks the role of each operation.
"""
