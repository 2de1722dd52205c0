"""Messages as JSON below ``/api/v1``: publish, browse, receive with a lease, and follow as server-sent events.

The web process is a client of the broker with the caller's own credentials, as for the servlets (`spanwire.web.rest`).

- A *lease* (`spanwire.web.rest.leases`) holds received messages for one user until they are acknowledged or released,
  or until its time is over.
- A *message stream* (`message_stream`) sends each message of a queue or topic as an event.
"""
