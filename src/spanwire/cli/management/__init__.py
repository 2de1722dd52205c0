"""Commands over the management model: `spanwire queue list`, `spanwire job remove` and their like.

- A *noun* is the first word of such a command, such as ``queue``: one view of `spanwire.management.tables.view_table`.
- An *action* is the second word: ``list``, ``show``, or an operation of `spanwire.management.tables.operation_table`.

Attributes and arguments come from the two tables, so a new operation is a command without further code.
"""
