"""Runs routes as streaming queries of Spark until they end; `spanwire.routes` reads their files.

of a batch on disk, equal in every attempt.

Args:
    *batch* is Spark's unit of work. An endpoint *commits once* if it recognises a repeated batch. *Kept rows* are the
        rows
"""
