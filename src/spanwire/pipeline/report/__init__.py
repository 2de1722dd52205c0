"""Reports of the flow through brokers, as tables and charts, from archives.

Archives have messages, advisories and statistics. A *sighting* is an observation of a message at a broker or in an
archive. The *ledger* compares sent messages with their ends; a message is *flagged* if it breaks the ledger or waits
too long. A *hop* is the way between two brokers.
"""
