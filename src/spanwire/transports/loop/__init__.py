"""The part of the event loop for sockets: the *pump* of one socket, and the end of each *turn*."""
