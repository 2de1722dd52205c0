"""Advisories: messages about connections, consumers, destinations and messages (ActiveMQ, "Advisory Message"). Pure."""
