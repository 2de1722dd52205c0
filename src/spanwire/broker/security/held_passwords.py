"""The passwords held in clear by the broker, for logins with a proof in place of the password."""

from __future__ import annotations

from typing import Final

from spanwire.broker.ports import Authenticator
from spanwire.broker.security.authentication import DualLogin, GuestModule, LoginStack, UsersModule
from spanwire.model.secret import Secret


class HeldPasswords:
    """The passwords of the users of some login modules."""

    def __init__(self, modules: list[UsersModule]) -> None:
        self._modules: Final[list[UsersModule]] = modules

    def password_of(self, name: str) -> Secret | None:
        """Return the password of the first user named ``name``, None for an unknown user."""
        for module in self._modules:
            password = module.password_of(name)
            if password is not None:
                return password
        return None


def held_passwords(authenticator: Authenticator, *, encrypted: bool) -> HeldPasswords | None:
    """Return the passwords of all users of ``authenticator``.

    ``encrypted`` is True for a connection inside TLS.

    Returns:
        None if users may log in by another module, such as a certificate or a directory, or without a password.
    """
    if isinstance(authenticator, DualLogin):
        return _of_stack(authenticator.stack(encrypted=encrypted))
    return _of_stack(authenticator) if isinstance(authenticator, LoginStack) else None


def _of_stack(stack: LoginStack) -> HeldPasswords | None:
    modules: list[UsersModule] = []
    for module in stack.modules():
        if isinstance(module, UsersModule):
            modules.append(module)
        elif not isinstance(module, GuestModule) or not module.without_credentials:
            return None
    return HeldPasswords(modules) if modules else None
