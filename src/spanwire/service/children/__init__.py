"""Child processes under the broker's watch: restarts after growing pauses, and a stop with the broker."""
