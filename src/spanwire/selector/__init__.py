"""SQL-92 message selectors: lexer, parser, expression. Pure."""
