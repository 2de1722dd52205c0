"""Advisories: messages about connections, consumers, destinations and messages. Pure.

See ActiveMQ, "Advisory Message".

- A *listener* is a consumer of an advisory topic.
- The *replay* informs a new listener of existing connections, consumers and destinations.
- *Message advisories* report the fate of single messages, if the policy of the destination has such advisories.
"""
