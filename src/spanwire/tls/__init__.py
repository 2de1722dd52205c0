"""TLS for connectors and clients: key stores, contexts, and Java's names of suites and versions.

- A *key store* has the own private key and certificates, a *trust store* the accepted authorities.
- A *suite* is a set of algorithms, under Java's name or OpenSSL's.
"""
