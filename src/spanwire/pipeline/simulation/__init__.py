"""Simulates demand, messages and advisories in networks of up to a million brokers.

No broker runs. A *goal* is a broker with consumers. *Demand* is the subscriptions of bridges for these consumers, and
the advisories about them.
"""
