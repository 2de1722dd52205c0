"""The plug-ins of ActiveMQ that change or log what passes through a broker. Pure."""
