"""The Python data source ``spanwire`` that Spark calls: batch and stream, reader and writer.

Spark creates readers and writers in the driver and sends copies to tasks.
"""
