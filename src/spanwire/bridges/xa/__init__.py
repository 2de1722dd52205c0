"""The transaction manager of bridges: one distributed transaction for each batch between two brokers.

    receive → send in a branch → prepare both branches → write the decision → commit both branches

A decision is a record that is stored on the disk of the bridge. Only commits are decisions: a prepared branch without a
decision is rolled back (presumed abort). `branches` names branches, `records` and `decisions` are the content of the
log, `log_file` is the file, `decision_log` stores decisions for many bridges at once, and `xa_link` drives the branches
of one bridge.
"""
