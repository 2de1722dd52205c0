"""Topics: each message goes to every subscription that exists when the message arrives. Pure.

- A *durable subscription* keeps messages for an absent subscriber, in a pending list like a queue's.
- *Subscription recovery* retains messages for retroactive consumers; *message eviction* limits pending messages of slow
  consumers.
"""
