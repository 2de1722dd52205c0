"""Operations on the store of a stopped broker: check, repair, export, import.

The *quarantine* is a directory with the files as before a repair.
"""
