"""Views of a running broker, operations on the broker, and the control socket for both.

- A *view* is a plain value for JSON. An *operation* changes a queue; *administration* removes objects.
- The *control socket* takes one JSON object a line.
- A *running entry* is the file of a running broker, in a directory for all running brokers of the user.
"""
