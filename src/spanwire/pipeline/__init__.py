"""The data source ``spanwire`` of PySpark and the programs around it.

The pipeline uses the client and never the broker.
"""
