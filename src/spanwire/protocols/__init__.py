"""Wire protocols: bytes in, commands out and back, one package per protocol. Pure."""
