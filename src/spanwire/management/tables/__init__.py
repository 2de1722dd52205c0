"""Tables of an operator's views and operations: attributes, roles, and choices among rows.

A *view* is one kind of objects, such as queues. The command line, the control socket, the HTTP API, Jolokia and metrics
read names, types and meanings from here alone.
"""
