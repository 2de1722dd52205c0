"""Message stores behind the ports of the broker: memory and journal.

- The *journal* is the store on the disk. A *writer* thread and a *reader* thread do its I/O.
- A *position* numbers the calls of the broker to the store; *synced* calls survive a power cut.
- The *data directory* has the lock, the journal and the control socket of a broker.
"""
