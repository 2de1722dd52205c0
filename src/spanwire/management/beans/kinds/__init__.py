"""The beans of each kind of object: the broker, clients, destinations, networks, services.

Each module has the kinds of one table of views: attributes from the table, and the names of the beans.
"""
