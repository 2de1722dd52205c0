"""The provider for STOMP 1.2.

Brokers are ActiveMQ Classic, Artemis, Spanwire, and RabbitMQ with the STOMP plug-in.
"""
