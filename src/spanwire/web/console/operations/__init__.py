"""Forms for changes: operations of the HTTP API, the sending of messages, and the words of both."""
