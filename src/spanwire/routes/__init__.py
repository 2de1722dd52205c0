"""Routes of messages from a file: the readers of the file, and the model of what it says.

A *route* takes messages from one *endpoint* over *steps* to others; a *node* is a part of the file with its line.
"""
