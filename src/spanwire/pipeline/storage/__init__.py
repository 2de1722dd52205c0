"""Directories on shared file systems: addresses, whole files, and segments of staged messages.

`staged_segments` chooses between a directory of this machine (`spanwire.pipeline.arrow.segments`) and a file system of
PyArrow (`shared_staging`).
"""
