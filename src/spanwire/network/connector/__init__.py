"""Network connectors: open the sockets of bridges, and connect again after each break.

- A *network connector* has one *link* for each remote address, listed or found by discovery.
- The *failure log* limits the log lines of a failing link.
"""
