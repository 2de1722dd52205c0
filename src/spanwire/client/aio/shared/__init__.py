"""The state of an asyncio connection: socket, waiting tasks and keep-alive.

The package has the connection after a failure as well.
"""
