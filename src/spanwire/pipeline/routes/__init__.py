"""Routes of messages from a file: what they say, and the streaming queries that they become."""
