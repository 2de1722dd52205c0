"""The control destination: cursors and sinks, by which a program moves each message once and only once. Pure.

- A *cursor* is a named, durable reader of a queue: it *reserves* messages until the program releases them.
- A *sink* stages the parts of a batch and commits the batch once.
"""
