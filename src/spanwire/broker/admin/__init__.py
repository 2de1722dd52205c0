"""Views and operations of an operator while the broker runs. Pure.

- A *view* is a frozen copy of the state of a destination, consumer or connection.
- An *operation* works on selected messages of a queue in slices; an *observer* gets the result.
- A *published status* is the text that a running pipeline has published over the control destination.
- *Administration* removes durable subscriptions and destinations, and disconnects clients.
"""
