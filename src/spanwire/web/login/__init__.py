"""Log-in of browsers: a session begins with credentials, and a cookie stands for it until the log-out.

- A *token* is the secret in the cookie; the process keeps a digest.
- A *proof of the origin* is a header that only browsers set, and only for pages of this host.
"""
