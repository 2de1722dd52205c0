"""What can be done to the store of a stopped broker: look at it, put it right, take its contents out and in."""
