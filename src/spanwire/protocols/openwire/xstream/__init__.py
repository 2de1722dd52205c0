"""OpenWire as text: commands in XStream's XML of activemq-http, and their binary frames."""
