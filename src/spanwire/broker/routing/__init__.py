"""Handling of sends, acknowledgements, consumers and producers. Pure.

A send is checked, held back by *flow control* when there is no room, stored and dispatched; a message that nobody can
consume goes to a *dead letter* queue, at once or, while the disk is full, later.
"""
