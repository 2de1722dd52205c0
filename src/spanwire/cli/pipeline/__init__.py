"""The command ``spanwire pipeline``: routes, archives, reports, cursors and sinks."""
