"""XMPP (RFC 6120, RFC 6121): streams, logins, and stanzas as messages of queues and topics.

A *stanza* is one `message`, `presence` or `iq` element. A *JID* is the address of a client, a queue or a topic:
``local@domain/resource``. A *room* (XEP-0045) is a topic with clients as participants, each under a *nick*.
"""
