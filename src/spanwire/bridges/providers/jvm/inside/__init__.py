"""The process with the Java virtual machine: JMS objects and their threads, by the requests of the bridges."""
