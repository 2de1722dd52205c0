"""The provider for brokers whose connection factory stands in an LDAP directory; needs the extra ``ldap``."""
