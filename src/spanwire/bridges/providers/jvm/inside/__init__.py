"""The process with the Java virtual machine: JMS objects and threads, by the bridges' requests."""
