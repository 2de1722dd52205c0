"""What an operator sees and does while the broker runs. Pure."""
