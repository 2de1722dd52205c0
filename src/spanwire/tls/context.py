"""The `ssl.SSLContext` of a connector and of a client.

TLS 1.2 is the oldest version. There is no renegotiation and no compression, and all suites have forward secrecy and an
authenticated cipher. A connector's context is tested before use. So an expired certificate, or a suite unsuitable for
its key, is reported when the broker starts.
"""

from __future__ import annotations

import ssl
from typing import Final

from spanwire.model.errors import ConfigurationError
from spanwire.tls import stores, suites
from spanwire.tls.settings import (
    NEED_CLIENT_CERTIFICATE,
    NO_CLIENT_CERTIFICATE,
    ClientTlsSettings,
    TlsSettings,
)

MAX_FLIGHTS: Final = 8  # flights of the handshake in the test of a context; a real one has four


class ServerContext(ssl.SSLContext):
    """The context of a connector; ``expires_s`` is the end of its certificate in seconds since 1970."""

    expires_s = 0


def server_context(settings: TlsSettings) -> ServerContext:
    """Return the context of a connector. Raises `ConfigurationError` in one line."""
    context = ServerContext(ssl.PROTOCOL_TLS_SERVER)
    suites.apply(context, settings.protocols, settings.cipher_suites)
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION | ssl.OP_CIPHER_SERVER_PREFERENCE
    certificate = stores.load_key(context, settings.key_store)
    context.expires_s = _test_handshake(context, certificate, settings)
    if settings.trust_store is not None:
        stores.load_trust(context, settings.trust_store)
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if settings.client_certificate == NEED_CLIENT_CERTIFICATE:
        context.verify_mode = ssl.CERT_REQUIRED
    elif settings.client_certificate != NO_CLIENT_CERTIFICATE:
        context.verify_mode = ssl.CERT_OPTIONAL
    return context


def client_context(settings: ClientTlsSettings) -> ssl.SSLContext:
    """Return the context of a client; the broker's certificate is always verified.

    Raises:
        ConfigurationError: a store cannot be used
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    suites.apply(context, settings.protocols, settings.cipher_suites)
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    context.check_hostname = settings.verify_host_name
    if settings.trust_store is None:
        context.load_default_certs()
    else:
        stores.load_trust(context, settings.trust_store)
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if settings.key_store is not None:
        stores.load_key(context, settings.key_store)
    return context


def _test_handshake(context: ssl.SSLContext, certificate: str, settings: TlsSettings) -> int:
    """Perform a handshake in memory with a client trusting only the certificate; return the expiry."""
    test_client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    test_client.check_hostname = False
    suites.apply(test_client, settings.protocols, settings.cipher_suites)
    test_client.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    path = settings.key_store.path
    try:
        test_client.load_verify_locations(cadata=certificate)
        shown = _shake_hands(context, test_client).getpeercert()
    except ssl.SSLCertVerificationError as error:
        raise ConfigurationError(
            f"{path}: no client would accept this certificate: {error.verify_message}; make a new one"
        ) from error
    except ssl.SSLError as error:
        reason = (error.reason or "unknown").lower().replace("_", " ")
        raise ConfigurationError(
            f"{path}: the certificate does not work with the enabled protocols and cipher suites: {reason}"
        ) from error
    assert shown is not None
    return ssl.cert_time_to_seconds(str(shown["notAfter"]))


def _shake_hands(server_side: ssl.SSLContext, client_side: ssl.SSLContext) -> ssl.SSLObject:
    """Return the side of the client after the handshake."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = server_side.wrap_bio(to_server, to_client, server_side=True)
    client = client_side.wrap_bio(to_client, to_server)
    pending = [client, server]
    for _ in range(MAX_FLIGHTS):
        for side in list(pending):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
            pending.remove(side)
        if not pending:
            return client
    raise ssl.SSLError("the handshake does not end")
