"""Wire protocols: convert bytes to commands and commands to bytes, one package per protocol. Pure."""
