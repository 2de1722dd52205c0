"""Views of a running broker, operations on it, and the control socket for both."""
