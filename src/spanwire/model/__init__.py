"""Types of all packages: destinations, messages, ids, announcements, errors, time. Pure, no I/O.

- A *message* has parsed routing fields and the received octets; a *message view* is the decoded, neutral form.
- An *announcement* (``info``) describes a connection, producer or consumer of a client.
- The *environment* supplies time, random bytes and the host name.
"""
