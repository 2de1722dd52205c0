"""The provider for Apache Kafka, on the library aiokafka (extra ``kafka``)."""
