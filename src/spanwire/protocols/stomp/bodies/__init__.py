"""Bodies and headers as text: JMS types, maps as XML and JSON. Pure."""
