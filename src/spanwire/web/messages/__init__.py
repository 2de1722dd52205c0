"""Messages as JSON below ``/api/v1``.

Operations: publish, browse, receive with a lease, and follow as server-sent events.

The web process is a client of the broker with the caller's own credentials, as for the servlets (`spanwire.web.rest`).

- A *lease* (`spanwire.web.rest.leases`) holds received messages for one user until the acknowledgement, the release, or
  the end of the lease's time.
- A *message stream* (`message_stream`) sends each message of a queue or topic as an event.
"""
