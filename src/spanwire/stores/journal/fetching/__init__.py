"""Messages read back from the disk. Pure.

A *fetch* is one request of the broker for messages. A *block* is a range of a file for one system call.
"""
