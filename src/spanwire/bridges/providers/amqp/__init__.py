"""The provider for AMQP 1.0: ActiveMQ Artemis and Classic, RabbitMQ with its plug-in; needs the extra ``amqp``.

Qpid Proton's engine speaks the protocol. The sections of messages have a codec of their own (`codec`), which keeps the
types of all values, and reads lengths and depths of a hostile message within limits.
"""
