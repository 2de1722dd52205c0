"""Directories that several machines share.

Parts are addresses, whole files in the directories, and received messages staged there.

`staged_segments` chooses between a directory of this machine (`spanwire.pipeline.arrow.segments`) and a file system
that PyArrow reaches (`shared_staging`).
"""
