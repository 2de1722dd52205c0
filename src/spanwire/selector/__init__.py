"""SQL-92 message selectors: lexer, parser and expressions. Pure.

- An *expression* is a node of a parsed selector; its value for a message may be *unknown* (null).
- A *narrowing* is a necessary condition of a selector: a property has a certain value, or a value of a list.
"""
