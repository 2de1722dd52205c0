"""The provider for brokers with a connection factory in an LDAP directory; needs the extra ``ldap``."""
