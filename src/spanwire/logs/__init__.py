"""Logs: the form of lines, the names of events, log files, and levels of a running process.

- An *event* is the name of a fault, such as ``disk-full``; it stays the same when the text changes.
- A *child's line* is a JSON line of a process that this process has started; it is logged again here.
"""
