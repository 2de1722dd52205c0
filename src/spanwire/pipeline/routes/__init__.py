"""Runs routes as streaming queries of Spark until they end; `spanwire.routes` reads the route files.

- A *batch* is Spark's unit of work. An endpoint *commits once* if the endpoint recognises a repeated batch.
- *Kept rows* are the rows of a batch on disk, equal in every attempt.
"""
