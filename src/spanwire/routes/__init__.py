"""Routes of messages from a file: the readers of the file, and the model of its contents.

*location*, a file name and a line.

Args:
    *route* takes messages from one *endpoint* over *steps* to other endpoints. A *node* is a part of the file with its
"""
