"""Views of and operations on a running broker, and the control socket that offers them."""
