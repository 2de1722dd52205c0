"""The configuration of users, access lists and TLS."""
