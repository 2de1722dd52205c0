"""The web process: monitoring, management API, Jolokia and console over HTTP, beside a running broker.

Monitoring is metrics and health checks.

The process talks to the broker through the control socket, with the handle of each caller
(`spanwire.management.handles`), and has neither a store nor rights. Needs the extra ``web``: Jinja2, Starlette, uvicorn
and prometheus-client.

- The *route table* (`routes`) lists every route with a role; no other route is served.
- The *web port* (`serving`) opens the sockets, runs the server and refuses malformed requests before any route.
- *Access* turns credentials into handles.
- *Snapshots* are answers of the broker, shared by several requests.
"""
