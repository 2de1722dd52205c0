"""Messages as columns and columns as messages, in Arrow's layout and without an object per row. Pure.

- A *decoder* makes columns of received messages; an *encoder* makes messages of columns.
- A *view* reads a column of Arrow in place. A *VARIANT* is Spark's binary form of a typed value.
"""
