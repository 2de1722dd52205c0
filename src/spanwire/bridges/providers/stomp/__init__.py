"""The provider for STOMP 1.2: ActiveMQ Classic, Artemis, Spanwire, and RabbitMQ with its STOMP plug-in."""
