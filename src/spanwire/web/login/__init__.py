"""Log-in of browsers: a session begins with credentials, and lasts by a cookie until the log-out.

- A *token* is the secret in the cookie; the process keeps a digest.
- A *proof of the origin* is a header set only by browsers, and only for pages of this host.
"""
