"""Pages without changes: each module has the handlers of one kind of page."""
