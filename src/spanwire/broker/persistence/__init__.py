"""The broker's state for the store: withheld replies, recovered messages, the audit of duplicates.

Pure.

- A *withheld reply* waits until the store has synced a *position*; a *withheld message* is dispatched only then.
- A *store unit* has additions and removals with a common effect; collecting a unit may take several slices.
- *Unsynced bytes* are on the way to the disk. Above a limit, sends wait.
- The *producer audit* recognises a repeated send; *network copies* are copies of one message over several routes.
"""
