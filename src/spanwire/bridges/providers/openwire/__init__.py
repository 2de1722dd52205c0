"""The provider for ActiveMQ Classic, ActiveMQ Artemis and Spanwire, on the project's own client."""
