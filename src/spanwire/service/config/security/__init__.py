"""Who may log in and who may do what, and TLS, as a configuration says it."""
