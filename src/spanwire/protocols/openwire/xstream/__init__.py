"""OpenWire as text: commands in the XML of activemq-http, which XStream writes, and their binary frames."""
