"""Logs: the form of lines, the names of events, log files, and levels of a running process.

- An *event* is the name of a fault, such as ``disk-full``; the name stays the same when the text changes.
- A *child's line* is a JSON line of a child process; the parent logs the line again.
"""
