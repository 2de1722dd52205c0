"""The plug-ins of ActiveMQ that change or log requests to a broker. Pure.

A *plugged broker* carries out requests through its plug-ins. A broker without plug-ins is a plain `Broker`.
"""
