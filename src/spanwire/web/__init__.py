"""The web process: metrics, health checks and the management API over HTTP, beside a running broker.

It talks to the broker through the control socket, with the handle of each caller (`spanwire.management.handles`). It
holds no store and no rights of its own. Needs the extra ``web``: Starlette, uvicorn and prometheus-client.

- The *route table* (`routes`) lists every route with its role; nothing else is served.
- The *guard* refuses requests by their form, before any route: foreign hosts and origins, bodies that are too large.
- *Access* turns credentials into handles.
- *Snapshots* are answers of the broker that several requests share.
"""
