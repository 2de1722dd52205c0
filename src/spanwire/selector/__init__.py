"""SQL-92 message selectors: lexer, parser and expressions. Pure."""
