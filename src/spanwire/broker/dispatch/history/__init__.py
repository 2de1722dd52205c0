"""The memory of messages that passed: when they came, how they left, how long they took. Pure.

- An *arrival mark* has the times of the messages up to the next mark.
- A *departure* is a message that left otherwise than by an acknowledgement.
- A *link* of the ledger is a broker at the other end, kept as a number.
"""
