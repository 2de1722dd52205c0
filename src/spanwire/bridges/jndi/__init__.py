"""Connection factories and destinations by names of JNDI.

The names are written as in configurations of ActiveMQ and Spring.

- An *environment* is the properties of an ``InitialContext``.
- A *context* finds names: in the environment itself (`local_names`), or in an LDAP directory
  (`spanwire.bridges.providers.ldap`).
- A *reference* is an entry of a directory: the class of an object and the properties as texts.

No Java class is loaded. Environments and references with classes from elsewhere are refused.
"""
