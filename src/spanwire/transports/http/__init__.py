"""OpenWire over HTTP, as clients of activemq-http speak it.

A *session* is a client's connection to the broker. It has a name of the client's choice, sent as the header `clientID`.
A HEAD request opens it, each POST brings one command, and a GET waits for the broker's next command. The requests may
come over any number of sockets.
"""
