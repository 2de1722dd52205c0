"""Pages for viewing: each module has the handlers of one kind of page."""
