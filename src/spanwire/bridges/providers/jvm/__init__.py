"""The provider for JMS providers in Java, through JPype; needs the extra ``jvm`` and a Java runtime.

A *host* is a process with one Java virtual machine, for all connections by factories with the same jars. `inside` is
the program of the host; `frames` are the messages between the host and the process of the bridges.
"""
