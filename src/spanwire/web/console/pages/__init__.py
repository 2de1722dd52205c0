"""Pages that show something: each module has the handlers of one kind of page."""
