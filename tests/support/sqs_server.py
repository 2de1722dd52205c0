"""moto's server with SQS as a child process, and calls to it. Its queues are in memory, or in a journal as well."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any, Final, Self

import boto3

from tests.support.await_start import await_start, is_listening
from tests.support.ports import free_port

START_TIMEOUT_S: Final = 180.0  # beside other tests on two processors
END_TIMEOUT_S: Final = 30.0
HIDDEN_S: Final = 3_600  # seconds in which a message that was read does not come again
ROOT: Final = Path(__file__).resolve().parents[2]
REGION: Final = "eu-central-1"
USER: Final = "bridge"
PASSWORD: Final = "right-word"


class SqsProcess:
    """A server that runs while the block does."""

    def __init__(self, directory: Path, certificate: Path | None = None, is_durable: bool = False) -> None:
        """With a file of key and certificate the server speaks TLS; ``trust`` is what our own client trusts then.

        A durable server has its messages after `kill` and `start`.
        """
        self._is_durable: Final = is_durable
        self.certificate: Final = certificate
        self.trust: Path | None = None
        self._directory: Final = directory
        self.port: Final = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """The address for bridges."""
        return f"sqs://127.0.0.1:{self.port}?region={REGION}"

    @property
    def is_running(self) -> bool:
        """False after `kill`."""
        return self._process is not None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self) -> None:
        """Return when clients can connect."""
        log = self._directory / "log"
        with log.open("ab") as output:
            module = ["moto.server"]
            if self._is_durable:
                module = ["tests.support.durable_sqs_server", str(self._directory / "journal")]
            command = [sys.executable, "-m", *module, "-H", "127.0.0.1", "-p", str(self.port)]
            if self.certificate is not None:
                command += ["-s", "-c", str(self.certificate), "-k", str(self.certificate)]
            self._process = subprocess.Popen(command, stdout=output, stderr=output, cwd=ROOT)
        await_start(self._process, lambda: is_listening(self.port), self.kill, log, START_TIMEOUT_S)

    def kill(self) -> None:
        """End the server at once; its queues are gone, unless it is durable."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait(END_TIMEOUT_S)

    def client(self) -> Any:
        """A client of Amazon's library."""
        return boto3.client(
            "sqs",
            region_name=REGION,
            endpoint_url=f"{'http' if self.certificate is None else 'https'}://127.0.0.1:{self.port}",
            verify=None if self.trust is None else str(self.trust),
            aws_access_key_id=USER,
            aws_secret_access_key=PASSWORD,
        )

    def create(self, name: str, **attributes: str) -> str:
        """Create a queue, and return its URL."""
        return str(self.client().create_queue(QueueName=name, Attributes=attributes)["QueueUrl"])

    def send(self, name: str, texts: list[str]) -> None:
        """Send texts."""
        client = self.client()
        url = client.get_queue_url(QueueName=name)["QueueUrl"]
        for start in range(0, len(texts), 10):
            entries = [{"Id": str(n), "MessageBody": text} for n, text in enumerate(texts[start : start + 10])]
            client.send_message_batch(QueueUrl=url, Entries=entries)

    def messages(self, name: str, is_kept: bool = True) -> list[dict[str, Any]]:
        """The visible messages of a queue, which stay there or are removed."""
        client = self.client()
        url = client.get_queue_url(QueueName=name)["QueueUrl"]
        found: list[dict[str, Any]] = []
        while some := client.receive_message(
            QueueUrl=url,
            MaxNumberOfMessages=10,
            VisibilityTimeout=HIDDEN_S,
            MessageAttributeNames=["All"],
            AttributeNames=["All"],
        ).get("Messages"):
            found += some
        if not is_kept:
            client.purge_queue(QueueUrl=url)
            return found
        for message in found:
            client.change_message_visibility(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=0)
        return found

    def count(self, name: str) -> int:
        """The messages of a queue, those that consumers hold included."""
        client = self.client()
        url = client.get_queue_url(QueueName=name)["QueueUrl"]
        own = client.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
        return int(own["ApproximateNumberOfMessages"]) + int(own["ApproximateNumberOfMessagesNotVisible"])
