"""STOMP frames typed by hand into telnet, which ends each line with CR LF, and the answers a person sees.

The session is that of the usual tutorial: most frames end with NUL where a blank line should have stood before it.
"""

from __future__ import annotations

from tests.support.broker_process import BrokerProcess
from tests.support.stomp_socket import StompFrame, StompSocket

NUL = "\0"


def typed(text: str) -> str:
    """What telnet sends for lines that a person ends with Enter; ^@ is the NUL they type."""
    return text.replace("\n", "\r\n").replace("^@", NUL)


CONNECT = typed("CONNECT\nlogin:foo\npasscode:bar\n^@\n")
CONNECT_WITH_BLANK_LINE = typed("CONNECT\nlogin:foo\npasscode:bar\n\n^@\n")
SEND = typed("SEND\ndestination:/queue/{queue}\nreceipt:\n\nHello, queue FOO.BAR\n^@\n")
SUBSCRIBE = typed("SUBSCRIBE\ndestination:/queue/{queue}\nack:client\n\n^@\n")
UNSUBSCRIBE = typed("UNSUBSCRIBE\ndestination:/queue/{queue}\nreceipt:\n^@\n")
UNSUBSCRIBE_WITH_BLANK_LINE = typed("UNSUBSCRIBE\ndestination:/queue/{queue}\nreceipt:\n\n^@\n")
DISCONNECT = typed("DISCONNECT\n^@\n")
DISCONNECT_WITH_BLANK_LINE = typed("DISCONNECT\n\n^@\n")

VARYING = ("session", "server", "timestamp", "message-id", "heart-beat")


def seen(frame: StompFrame | None) -> tuple[str, dict[str, str], bytes]:
    """What is the same in every run."""
    assert frame is not None
    return frame.command, {k: v for k, v in frame.headers.items() if k not in VARYING}, frame.body


def tutorial(port: int, queue: str, blank_lines: bool) -> list[object]:
    """Producer and consumer side by side; all that they are shown."""
    observations: list[object] = []
    connect = CONNECT_WITH_BLANK_LINE if blank_lines else CONNECT
    blank = "\r\n" if blank_lines else ""
    with StompSocket(port) as producer, StompSocket(port) as consumer:
        producer.type(connect)
        observations.append(seen(producer.receive()))
        producer.type(SEND.format(queue=queue))
        observations.append(seen(producer.receive()))
        consumer.type(connect)
        observations.append(seen(consumer.receive()))
        consumer.type(SUBSCRIBE.format(queue=queue))
        message = consumer.receive()
        observations.append(seen(message))
        assert message is not None
        consumer.type(typed(f"ACK\nmessage-id:{message.headers['message-id']}\n{blank}^@\n"))
        consumer.type((UNSUBSCRIBE_WITH_BLANK_LINE if blank_lines else UNSUBSCRIBE).format(queue=queue))
        observations.append(seen(consumer.receive()))
        for client in (producer, consumer):
            client.type(DISCONNECT_WITH_BLANK_LINE if blank_lines else DISCONNECT)
            observations.append(client.receive())
    with StompSocket(port) as later:
        later.type(CONNECT_WITH_BLANK_LINE)
        later.receive()
        later.type(SUBSCRIBE.format(queue=queue))
        observations.append(later.silence())
    return observations


def test_the_tutorial_with_its_blank_lines_shows_what_classic_shows(
    spanwire: BrokerProcess, classic: BrokerProcess
) -> None:
    ours = tutorial(spanwire.stomp_port, "FOO.BAR", blank_lines=True)
    assert ours == tutorial(classic.stomp_port, "FOO.BAR", blank_lines=True)


def test_the_tutorial_as_it_is_printed_works_too(spanwire: BrokerProcess) -> None:
    as_printed = tutorial(spanwire.stomp_port, "FOO.BAR.PRINTED", blank_lines=False)
    with_blank_lines = tutorial(spanwire.stomp_port, "FOO.BAR.PRINTED", blank_lines=True)
    assert as_printed == with_blank_lines
    assert as_printed[-1] is True


def test_a_frame_may_come_octet_by_octet(spanwire: BrokerProcess, classic: BrokerProcess) -> None:
    text = CONNECT_WITH_BLANK_LINE + SEND.format(queue="SLOWLY") + DISCONNECT_WITH_BLANK_LINE
    for broker in (spanwire, classic):
        with StompSocket(broker.stomp_port) as client:
            for octet in text.encode():
                client.type(bytes([octet]))
            answers = [client.receive(), client.receive()]
            assert [answer.command if answer else None for answer in answers] == ["CONNECTED", "RECEIPT"]
            assert client.receive() is None


def test_a_web_page_that_posts_frames_is_cut_off_before_they_are_read(spanwire: BrokerProcess) -> None:
    frames = CONNECT_WITH_BLANK_LINE + SEND.format(queue="FROM.A.PAGE")
    head = f"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: text/plain\r\nContent-Length: {len(frames)}\r\n\r\n"
    with StompSocket(spanwire.stomp_port) as page:
        page.type(head + frames)
        answer = page.receive()
        assert answer is None or answer.command == "ERROR"
        assert page.receive() is None
    with StompSocket(spanwire.stomp_port) as client:
        client.connect("1.2")
        client.type("SUBSCRIBE\nid:1\ndestination:/queue/FROM.A.PAGE\n\n\0")
        assert client.silence()
