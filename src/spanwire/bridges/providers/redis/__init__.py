"""The provider for streams of Redis, on the library redis-py (extra ``redis``)."""
