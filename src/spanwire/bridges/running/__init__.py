"""Tasks for the actions of bridges, and the process with the bridges of a file."""
