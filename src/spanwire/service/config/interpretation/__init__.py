"""From elements to the model of a configuration: every attribute is looked up, every obstacle noted."""
