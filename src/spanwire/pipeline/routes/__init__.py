"""Routes as streaming queries of Spark, run until they end; `spanwire.routes` reads their files."""
