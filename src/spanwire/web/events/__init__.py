"""The stream of changes at ``/api/v1/events``, as server-sent events.

- A *listener* is one open stream. It names views, and gets their changed rows.
- A *round* reads each view that a listener names once, for all listeners, and compares it with the round before.

Specification: https://html.spec.whatwg.org/multipage/server-sent-events.html
"""
