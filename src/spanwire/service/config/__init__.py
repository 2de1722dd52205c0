"""Configuration: activemq.xml, TOML and broker URIs, three readers of one validated model."""
