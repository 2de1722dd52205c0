"""Local and distributed transactions: begin, prepare, commit, rollback, recovery. Pure.

- A *local transaction* belongs to one connection.
- A *branch* is the part of an XA transaction at this broker. A *prepared* branch survives a restart.
- *Commit work* and *prepare work* gather a transaction in slices; the store takes the result as one *unit*.
- *Undo work* rolls a transaction back in slices.
"""
