"""Configuration: three readers (activemq.xml, TOML, broker URIs) of one validated model.

- A *reader* makes elements of a file; the *interpretation* makes the *model* of elements.
- The *diagnostics* are all obstacles and warnings of a configuration, one line each.
"""
