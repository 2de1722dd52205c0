"""The stream of changes at ``/api/v1/events``, as server-sent events.

- A *listener* is one open stream with names of views, and gets the changed rows of these views.
- A *round* reads each view once for all listeners, and compares the rows with the round before.

Specification: https://html.spec.whatwg.org/multipage/server-sent-events.html
"""
