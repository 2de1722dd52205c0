"""The state of a blocking connection: socket, waiting threads, and the connection after a failure."""
