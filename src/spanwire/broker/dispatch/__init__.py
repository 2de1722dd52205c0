"""Base classes of queues, topics and consumers, and the shared state of a broker's destinations.

Pure.

- A *message reference* is a message in one holder, with the store's sequence and the number of deliveries.
- A *message holder* keeps messages for consumers and counts the used memory: a destination, or the browse of a queue.
- A *job* does long work a slice at a time; a *store reader* takes the store's answers; an *alarm* waits for a time.
- A *subscription* is the broker's side of one consumer: the window of dispatched, unacknowledged messages.
- The *broker context* holds the state shared by all destinations of a broker: store, time of the turn, jobs.
- A *connection output* counts the unsent octets of one connection.
"""
