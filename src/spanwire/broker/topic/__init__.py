"""Topics: each message goes to every subscription that exists when it arrives. Pure.

- A *durable subscription* keeps messages for a subscriber that is away, in a pending list as queues have.
- *Subscription recovery* keeps messages for retroactive consumers; *message eviction* limits what waits for slow ones.
"""
