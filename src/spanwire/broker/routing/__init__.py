"""The way of a message and of an acknowledgement through the broker. Pure.

A send is checked, held back by *flow control* when there is no room, stored and dispatched; a message that nobody can
consume goes to a *dead letter* queue, at once or, while the disk is full, later.
"""
