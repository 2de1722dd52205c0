"""The provider for AMQP 0-9-1, the protocol of RabbitMQ; needs the extra ``amqp091``.

It uses aiormq, the layer of aio-pika that keeps the frames: the layer above refuses a message with unusual properties
before anybody sees it, and the message would stay at the broker for good.
"""
