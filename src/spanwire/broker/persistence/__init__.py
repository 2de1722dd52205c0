"""State of the broker that depends on its store. Pure.

The state is withheld replies, recovered messages and the audit of duplicates.

- A *withheld reply* waits until the store has synced a *position*; a *withheld message* is dispatched only then.
- A *store unit* has additions and removals that take effect together; its gathering may take several slices.
- *Unsynced bytes* are on the way to the disk. Above a limit, sends wait.
- The *producer audit* recognises a repeated send; *network copies* are copies of one message over several routes.
"""
