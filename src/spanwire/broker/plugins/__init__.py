"""The plug-ins of ActiveMQ that change, log or answer the requests of clients. Pure.

A *filter* sees the requests of clients before the broker does, in a chain. A *rule* decides about dead letters.
`plugins` puts both together. A broker without filters is a plain `Broker`.
"""
