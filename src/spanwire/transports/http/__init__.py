"""OpenWire over HTTP, as clients of activemq-http speak it.

A *session* is a client's connection to the broker. The session has a name of the client's choice, sent as the header
`clientID`. A HEAD request opens the session, each POST brings one command, and a GET waits for the broker's next
command. The requests may come over any number of sockets.
"""
