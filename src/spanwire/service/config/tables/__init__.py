"""The attributes of activemq.xml and their handling."""
