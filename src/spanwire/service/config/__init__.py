"""Configuration: three readers (activemq.xml, TOML, broker URIs) of one validated model."""
