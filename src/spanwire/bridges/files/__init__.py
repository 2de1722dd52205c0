"""Files with definitions of bridges, and the names of the parameters."""
