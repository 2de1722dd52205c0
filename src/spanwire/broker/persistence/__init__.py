"""State of the broker that depends on its store: withheld replies, recovered messages, the audit of duplicates. Pure.

- A *pending reply* is withheld until the store has synced the position that it waits for.
- The *producer audit* recognises a message that was sent again; *network copies* are those that came over another
  route.
"""
