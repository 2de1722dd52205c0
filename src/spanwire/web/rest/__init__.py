"""Messages over HTTP: the ``message`` and ``queueBrowse`` servlets of ActiveMQ.

The web process is a client of the broker with the caller's own credentials, over OpenWire.

- A *request* (`requests`) names a destination, a time-out and a session.
- A *login* (`logins`) is the one connection of a user, with idle producers and consumers for the next request.
- A *session* (`sessions`) is a lasting consumer between two requests with the same ``clientId``.
- A *lease* (`leases`) holds messages for one user until the acknowledgement or the end of its time; a *publication*
  (`publications`) is a list of messages sent together. Both serve `spanwire.web.messages`.
- An *answer* (`answers`) is a message as an HTTP response.
"""
