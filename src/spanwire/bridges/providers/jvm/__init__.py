"""The provider for JMS providers in Java, through JPype; needs the extra ``jvm`` and a Java runtime.

A *host* is a process with one Java virtual machine, for all connections whose factories have the same jars. `inside` is
what runs in that process; `frames` are the messages between it and the process of the bridges.
"""
