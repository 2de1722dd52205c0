"""The part of the event loop for sockets: the *pump* of one socket, the end of each *turn*, and its clock."""
