"""Moves of many messages by order of an operator: kept in the store, resumed after a crash, undone.

Pure.

- A *move order* says what to do: move, copy, retry dead letters, or undo an earlier move.
- A *move* is the state of one order. Each slice is one unit of the store: messages leave their queue, arrive at the
  target, and the record of the move counts them.
- *Moved runs* are the places of the messages at their targets, so that an undo finds the messages again.
- A *pace* holds a move back: a rate, and the room at the receiver.
"""
