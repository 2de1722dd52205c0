"""The provider for AMQP 1.0; needs the extra ``amqp``.

The brokers are ActiveMQ Artemis and Classic, and RabbitMQ with the plug-in.

Qpid Proton's engine speaks the protocol. The sections of messages have a separate codec (`codec`): the codec keeps the
types of all values, and reads lengths and depths of a hostile message within limits.
"""
