"""Interprets ``policyEntry``: the settings of queues, topics and bridges by destination."""
