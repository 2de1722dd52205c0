"""Queues: each message goes to one consumer and stays until the consumer acknowledges the message.

Pure.

- The *pending list* has the messages that wait for a consumer. Its *pages* are in memory or *paged out* to sequences.
- A *dispatcher* chooses the consumer of each message: direct, by priority, selective, or paused.
- A consumer with a selector keeps a *scan position*. In a *shared scan* consumers at one position form a scan group.
- A *message group* (JMSXGroupID) has one consumer as its owner; a *rescan* follows the loss of an owner.
- A *queue task* is long work on the pending list, done in slices: expiry scan, purge, removal.
- A *browse* shows the messages to a queue browser and removes none.
"""
