"""Authentication and authorization of clients. Pure.

- *Authentication* finds the *principal* of a connection: a user name and groups.
- The *authorization map* has the rights of principals by destination; *access control* checks each request.
- The *audit log* has a line for each refusal. The *login throttle* delays logins after failures.
"""
