"""Base classes of queues, topics and consumers, and the state that all destinations of a broker share. Pure.

- A *message reference* is a message in one destination, with the store's sequence and the number of deliveries.
- A *subscription* is the broker's side of one consumer: the window of dispatched, unacknowledged messages.
- The *broker context* holds the state shared by all destinations of a broker: store, time of the turn, jobs.
- A *connection output* counts the unsent octets of one connection.
"""
