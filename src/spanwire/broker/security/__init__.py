"""Authentication and authorization of clients. Pure.

*Authentication* decides who a connection acts for, the *authorization map* what that principal may do; *access control*
asks it for each request, and the *audit log* has a line for each refusal.
"""
