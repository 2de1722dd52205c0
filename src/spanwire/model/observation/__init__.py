"""Notes on the way of messages and on a broker at work, for whoever watches them. Pure.

- A *trace* is the way of one message through programs and brokers; its *context* travels in the message's properties.
- A *span record* is one step of such a way, noted for an exporter.
- A *histogram* counts times by their length.
"""
