"""Tasks that perform the actions of bridges, and the process that runs the bridges of a file."""
