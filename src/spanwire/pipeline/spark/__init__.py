"""The Spark on this machine: Java, the interpreter of the workers, the log, garbage collection."""
