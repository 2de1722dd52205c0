"""The spanwire command: one module per sub-command."""
