"""Entries of a directory with users, roles and rights, in LDIF, in the forms of ActiveMQ's examples."""

from __future__ import annotations

from typing import Final

from tests.support.canary import CANARY
from tests.support.directory_server import ADMIN, BASE, PASSWORD

USERS: Final = f"ou=User,{BASE}"
GROUPS: Final = f"ou=Group,{BASE}"
QUEUES: Final = f"ou=Queue,{BASE}"
TOPICS: Final = f"ou=Topic,{BASE}"
TEMPORARY: Final = f"ou=Temp,{BASE}"


def unit(name: str) -> str:
    return f"dn: {name}\nobjectClass: organizationalUnit\nou: {name.partition(',')[0].partition('=')[2]}\n"


def user(uid: str, password: str = CANARY, more: str = "", name: str = "") -> str:
    return (
        f"dn: {name or f'uid={uid},{USERS}'}\nobjectClass: person\nobjectClass: organizationalPerson\n"
        f"objectClass: inetOrgPerson\nuid: {uid}\ncn: {uid}\nsn: {uid}\n"
        f"userPassword: {password}\n{more}"
    )


def group(name: str, *members: str, base: str = GROUPS) -> str:
    lines = "".join(f"member: {member}\n" for member in members)
    return f"dn: cn={name},{base}\nobjectClass: groupOfNames\ncn: {name}\n{lines}"


def member(uid: str) -> str:
    return f"uid={uid},{USERS}"


def right(destination: str, name: str, *members: str, base: str = QUEUES) -> str:
    """A right on a destination; the entry of the destination comes with `destination`."""
    return group(name, *members, base=f"cn={destination},{base}" if destination else base)


def destination(name: str, base: str = QUEUES) -> str:
    return f"dn: cn={name},{base}\nobjectClass: applicationProcess\ncn: {name}\n"


UNITS: Final = tuple(unit(name) for name in (USERS, GROUPS, QUEUES, TOPICS, TEMPORARY))
OPTIONS: Final = {
    "connectionUsername": ADMIN,
    "connectionPassword": PASSWORD,
    "userBase": USERS,
    "userSearchMatching": "(uid={0})",
    "roleBase": GROUPS,
    "roleName": "cn",
    "roleSearchMatching": "(member={0})",
}


def module(url: str, flag: str = "required", **more: str) -> str:
    """The entry of an LDAPLoginModule in a login configuration."""
    options = {**OPTIONS, "connectionURL": url, **more}
    lines = "\n".join(f'        {name}="{value}"' for name, value in options.items())
    return f"    org.apache.activemq.jaas.LDAPLoginModule {flag}\n{lines};\n"
