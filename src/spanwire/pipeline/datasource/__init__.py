"""The Python data source that Spark calls: batch and stream, reader and writer."""
