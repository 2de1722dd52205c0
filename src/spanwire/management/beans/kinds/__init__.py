"""The beans of each kind of object: the broker, clients, destinations, networks, services.

Each module has the kinds whose attributes stand in one table of views, and says under which names they are found.
"""
