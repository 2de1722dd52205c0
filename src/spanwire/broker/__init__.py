"""The broker core: queues, topics, subscriptions, transactions, flow control. No I/O, no clock. Pure.

- A *destination* is a queue or topic, a *subscription* the broker's side of a consumer.
- *Dispatch* gives a message to a subscription; the message is *in flight* until its acknowledgement.
- A *port* is an interface to the outside, such as `MessageStore`; ``ports`` has all ports.
- A *metadata record* is a small value in the store, under a table and a key.
- A *turn* is one pass of the event loop. Long work is a *job*, done in *slices* over several turns.
"""
