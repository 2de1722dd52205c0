"""What flowed through brokers, as tables and charts, from archives of messages, advisories and statistics."""
