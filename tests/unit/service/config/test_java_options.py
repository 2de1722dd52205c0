"""What the variables of ActiveMQ's start script still say."""

from __future__ import annotations

import pytest

from spanwire.service.config.readers.java_options import ASSUMED_HEAP_BYTES, definitions, heap_bytes

MIB = 1024 * 1024


def test_definitions_are_read_from_the_variables_of_the_start_script() -> None:
    environment = {
        "ACTIVEMQ_OPTS": '-Xms64M -Dactivemq.data="/srv/my data" -Dempty= -Dflag --add-modules=x',
        "ACTIVEMQ_SSL_OPTS": "-Djavax.net.ssl.keyStore=/etc/broker.p12 -Dempty=no",
        "OTHER_OPTS": "-Dother=1",
    }
    assert definitions(environment) == {
        "activemq.data": "/srv/my data",
        "empty": "no",
        "javax.net.ssl.keyStore": "/etc/broker.p12",
    }


def test_a_quote_that_is_left_open_is_no_error() -> None:
    assert definitions({"ACTIVEMQ_OPTS": '-Da=1 -Db="2'}) == {"a": "1", "b": '"2'}


@pytest.mark.parametrize(
    ("environment", "size"),
    [
        ({}, ASSUMED_HEAP_BYTES),
        ({"ACTIVEMQ_OPTS_MEMORY": "-Xms64M -Xmx2G"}, 2048 * MIB),
        ({"ACTIVEMQ_OPTS_MEMORY": "-Xmx2G", "ACTIVEMQ_OPTS": "-Xmx512m"}, 512 * MIB),
        ({"ACTIVEMQ_OPTS_MEMORY": "-Xmx0"}, ASSUMED_HEAP_BYTES),
        ({"ACTIVEMQ_OPTS_MEMORY": "-Xmx٣G"}, ASSUMED_HEAP_BYTES),
        ({"ACTIVEMQ_OPTS_MEMORY": "-Xmx" + "9" * 400}, ASSUMED_HEAP_BYTES),
    ],
)
def test_the_heap_is_what_java_would_have_been_given(environment: dict[str, str], size: int) -> None:
    assert heap_bytes(environment)[0] == size
