"""Views and operations of an operator while the broker runs. Pure."""
