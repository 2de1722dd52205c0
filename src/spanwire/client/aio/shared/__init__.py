"""The state of an asyncio connection: socket, waiting tasks, keep-alive, and the connection after a failure."""
