"""The provider for AMQP 0-9-1, the protocol of RabbitMQ; needs the extra ``amqp091``.

The provider uses aiormq, the layer of aio-pika for frames: the layer above refuses a message with unusual properties
unseen, and the message would stay at the broker for good.
"""
