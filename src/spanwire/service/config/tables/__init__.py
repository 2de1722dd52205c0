"""The attributes of activemq.xml, and how each is handled."""
