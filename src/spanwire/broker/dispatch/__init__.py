"""The base of queues, topics and consumers, and the state that all destinations of a broker share. Pure.

- A *message reference* is a message in one destination: its sequence in the store and how often it was delivered.
- A *subscription* is the broker's side of one consumer: its window of messages that are dispatched and not
  acknowledged.
- The *broker context* holds what all destinations of a broker share: the store, the time of this turn, the jobs.
- A *connection output* counts the unsent octets of one connection.
"""
