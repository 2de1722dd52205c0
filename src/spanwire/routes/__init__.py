"""Routes of messages from a file: the readers of the file, and the model of its contents.

- A *route* takes messages from one *endpoint* over *steps* to other endpoints.
- A *node* is a part of the file with its *location*, a file name and a line.
- A *placeholder* such as ``{{NAME}}`` stands for a value from outside of the file.
"""
