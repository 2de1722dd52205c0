"""Messages of every type, with properties of every type, from end to end (JMS 1.1, "JMS Message Model")."""

from __future__ import annotations

from typing import Any, Final

from tests.conformance.differential.stage import Stage, slow

PROPERTIES: Final[dict[str, Any]] = {
    "truth": True, "byte": ["byte", 1], "short": ["short", -2], "int": ["int", 3], "long": 4, "float": ["float", 1.5],
    "double": ["double", 0.1], "text": "größe 山 \U0001f600", "empty": "",
}  # fmt: skip

EVERY_TYPE: Final[list[Any]] = [
    True, ["byte", -128], ["short", 32767], ["int", -1], 4, ["float", 1.5], ["double", 0.1], ["char", "山"],
    "größe \x00 \U0001f600", ["bytes", "abc"], "x" * 70_000, None,
]  # fmt: skip


def _crosses(jms: Stage, options: str, kind: str, *bodies: Any, **headers: Any) -> None:
    session = jms.connection(options).session()
    session.producer(jms.queue("Q")).sends(*bodies, kind=kind, **headers)
    jms.connection().session().consumer(jms.queue("Q")).receives(len(bodies), silence=True)


def text(jms: Stage) -> None:
    _crosses(jms, "", "text", "plain", "", "größe 山 \U0001f600", "\x00\x01 line\nfeed", None)


def bytes_messages(jms: Stage) -> None:
    _crosses(jms, "", "bytes", "abc", "")


def maps(jms: Stage) -> None:
    _crosses(jms, "", "map", {"truth": True, "number": 5, "fraction": 0.5, "text": "ä"}, {})


def streams(jms: Stage) -> None:
    _crosses(jms, "", "stream", [True, 5, 0.5, "ä"], [])


def maps_of_every_type(jms: Stage) -> None:
    values = {f"v{place}": value for place, value in enumerate(EVERY_TYPE)}
    _crosses(jms, "", "map", {**values, "inner": {"n": 1, "deeper": {"t": "ä"}}, "list": ["list", [1, "a", None]]})


def streams_of_every_type(jms: Stage) -> None:
    _crosses(jms, "", "stream", EVERY_TYPE)


def objects_are_opaque(jms: Stage) -> None:
    _crosses(jms, "", "object", "serialised")


def messages_without_a_body(jms: Stage) -> None:
    _crosses(jms, "", "plain", None)


def references_to_blobs(jms: Stage) -> None:
    _crosses(jms, "", "blob", "http://127.0.0.1/blob")


def properties_of_every_type(jms: Stage) -> None:
    _crosses(jms, "", "text", "a", properties=PROPERTIES)


def headers_of_every_kind(jms: Stage) -> None:
    _crosses(
        jms, "", "text", "a", correlation="c", type="t", replyTo="queue://REPLY", priority=9, ttl=600_000,
        volatile=True,
    )  # fmt: skip


def compressed_text(jms: Stage) -> None:
    _crosses(jms, "jms.useCompression=true", "text", "x" * 10_000)


def compressed_maps(jms: Stage) -> None:
    _crosses(jms, "jms.useCompression=true", "map", {"text": "x" * 1_000})


def compressed_bytes(jms: Stage) -> None:
    _crosses(jms, "jms.useCompression=true", "bytes", "x" * 10_000, "")


def compressed_streams(jms: Stage) -> None:
    _crosses(jms, "jms.useCompression=true", "stream", EVERY_TYPE)


def compressed_objects(jms: Stage) -> None:
    _crosses(jms, "jms.useCompression=true", "object", "x" * 1_000)


def compressed_text_with_properties_is_selected(jms: Stage) -> None:
    session = jms.connection("jms.useCompression=true").session()
    session.producer(jms.queue("Q")).sends("x" * 10_000, kind="text", properties=PROPERTIES)
    consumer = jms.connection().session().consumer(jms.queue("Q"), selector="byte = 1 AND double = 0.1 AND truth")
    consumer.receives(1, silence=True)


@slow
def a_large_message_survives_a_kill(jms: Stage) -> None:
    jms.connection().session().producer(jms.queue("Q")).sends("x" * 3_000_000)
    jms.restarts()
    jms.connection().session().consumer(jms.queue("Q")).receives(1, silence=True)


def messages_cross_encodings(jms: Stage) -> None:
    tight = jms.connection("wireFormat.tightEncodingEnabled=true&wireFormat.cacheEnabled=true").session()
    loose = jms.connection("wireFormat.tightEncodingEnabled=false&wireFormat.cacheEnabled=false").session()
    tight.producer(jms.queue("Q")).sends("tight", properties=PROPERTIES)
    consumer = loose.consumer(jms.queue("Q"))
    consumer.receives(1)
    consumer.closes()
    loose.producer(jms.queue("Q")).sends("loose", properties=PROPERTIES)
    tight.consumer(jms.queue("Q")).receives(1)


def the_user_is_stamped_where_the_client_gives_one(jms: Stage) -> None:
    session = jms.connection(user="somebody", password="p").session()
    session.producer(jms.queue("Q")).sends("a")
    session.consumer(jms.queue("Q")).receives(1)
