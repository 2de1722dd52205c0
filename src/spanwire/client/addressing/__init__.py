"""Broker URLs and the settings in their options. Pure.

- The *reconnect policy* has the options of ``failover:``, ``discovery:`` and ``fanout:`` URLs, the *redelivery policy*
  the options of redelivery.
- *Redaction* removes secrets from URLs before an error or log line shows them.
"""
