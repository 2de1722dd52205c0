"""Messages as columns and columns as messages, in the layout of Arrow, without an object for a row. Pure."""
