"""Connection factories and destinations by names of JNDI, as ActiveMQ's and Spring's configurations write them.

- An *environment* is the properties of an ``InitialContext``.
- A *context* finds names: in the environment itself (`local_names`), or in an LDAP directory
  (`spanwire.bridges.providers.ldap`).
- A *reference* is an entry of a directory: the class of an object and its properties as texts.

No Java class is loaded. Environments and references that ask for classes from elsewhere are refused.
"""
