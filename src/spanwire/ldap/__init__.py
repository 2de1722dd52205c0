"""LDAP directories (RFC 4511): addresses, filters, and questions. A question blocks the asking thread.

Each question has a connection of its own, a deadline and a limit of bytes. Referrals are never followed. `settings`,
`filters` and `ldap_url` are read with a configuration; the other modules need the extra `ldap`, the library ldap3.
"""
