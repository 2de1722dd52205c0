"""Processes that a broker starts and watches: started again after growing pauses, and stopped with the broker."""
