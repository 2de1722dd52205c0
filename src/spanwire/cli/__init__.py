"""The ``spanwire`` command: one module per sub-command, in folders by subject."""
