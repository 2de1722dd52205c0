"""A client of MQTT 5 that keeps a session and collects, on paho itself, for tests."""

from __future__ import annotations

import threading
import time
from typing import Any, Final

import paho.mqtt.client as paho
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.subscribeoptions import SubscribeOptions

from tests.support.mosquitto import PASSWORD, USER

WAIT_S: Final = 30.0
QUIET_S: Final = 0.4  # seconds without a message, after which all have arrived
STEP_S: Final = 0.05
HOUR_S: Final = 3_600
LAST: Final = b"the last message"


class MqttClient:
    """One session. A lost connection is made anew."""

    def __init__(self, port: int, client_id: str) -> None:
        self._changed: Final = threading.Condition()
        self._messages: Final[list[Any]] = []
        self._last = 0.0
        client = paho.Client(paho.CallbackAPIVersion.VERSION2, client_id=client_id, protocol=paho.MQTTv5)
        client.username_pw_set(USER, PASSWORD)
        client.reconnect_delay_set(1, 1)
        client.on_message = self._on_message
        self._client: Final = client
        self._subscribed: Final = threading.Event()
        client.on_subscribe = lambda *_: self._subscribed.set()
        wishes = Properties(PacketTypes.CONNECT)
        wishes.SessionExpiryInterval = HOUR_S
        client.connect("127.0.0.1", port, 60, clean_start=False, properties=wishes)
        client.loop_start()

    def subscribe(self, topic: str, quality: int = 1) -> None:
        """Subscribe with a quality of service."""
        self._subscribed.clear()
        self._client.subscribe(topic, options=SubscribeOptions(qos=quality))
        assert self._subscribed.wait(WAIT_S)

    def publish(self, topic: str, bodies: list[bytes], quality: int = 1, **properties: Any) -> None:
        """Publish with a quality of service, and wait for the answers."""
        own = Properties(PacketTypes.PUBLISH)
        for name, value in properties.items():
            setattr(own, name, value)
        for info in [self._client.publish(topic, body, quality, properties=own) for body in bodies]:
            info.wait_for_publish(WAIT_S)
            assert info.is_published()

    def messages(self, topic: str) -> list[Any]:
        """Return the messages of a topic that have come, once no more come."""
        deadline = time.monotonic() + WAIT_S
        begin = time.monotonic()
        while time.monotonic() < deadline:
            with self._changed:
                if time.monotonic() - max(self._last, begin) > QUIET_S and self._client.is_connected():
                    return [message for message in self._messages if message.topic == topic]
            time.sleep(STEP_S)
        raise AssertionError(f"messages to {topic} do not end")

    def take(self, topic: str) -> list[Any]:
        """Return the messages of a topic that the session has kept: until one arrives that is published now."""
        self.publish(topic, [LAST])
        with self._changed:
            assert self._changed.wait_for(lambda: bool(self._messages) and self._messages[-1].payload == LAST, WAIT_S)
            return [message for message in self._messages if message.topic == topic][:-1]

    def forget(self, topic: str) -> None:
        """Drop the messages of a topic."""
        with self._changed:
            self._messages[:] = [message for message in self._messages if message.topic != topic]

    def close(self) -> None:
        """Disconnect; the session stays."""
        self._client.disconnect()
        self._client.loop_stop()

    def _on_message(self, client: Any, userdata: Any, message: Any) -> None:
        with self._changed:
            self._messages.append(message)
            self._changed.notify_all()
            self._last = time.monotonic()
