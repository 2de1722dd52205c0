"""The Spark that runs on this machine: Java, the interpreter of the workers, the log, garbage collection."""
