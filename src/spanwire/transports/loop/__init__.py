"""The part of the event loop for sockets.

The modules are the *pump* of one socket, the end of each *turn*, *polling* before the loop sleeps, and the clock.
"""
