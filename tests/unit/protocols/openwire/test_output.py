"""The output of a connection comes out whole, with whatever buffer the connection keeps."""

from __future__ import annotations

from spanwire.protocols.openwire.output import KEPT_BYTES, KEPT_SHARE, OutputBuffer


def test_each_output_is_what_was_written_since_the_last() -> None:
    output = OutputBuffer()
    sizes = [1, 100, KEPT_BYTES, KEPT_BYTES // KEPT_SHARE, 1, 7, KEPT_BYTES + 1, 3, 3, KEPT_BYTES - 1, 100]
    taken: list[bytes] = []
    for number, size in enumerate(sizes):
        output.writer.write(bytes([number]) * size)
        (chunk,) = output.take()
        taken.append(chunk)
        assert output.take() == []
    assert taken == [bytes([number]) * size for number, size in enumerate(sizes)]  # none has changed since


def test_a_buffer_is_kept_for_outputs_of_its_size_alone() -> None:
    output = OutputBuffer()

    def keeps_its_buffer(size: int) -> bool:
        writer = output.writer
        writer.write(b"x" * size)
        output.take()
        return output.writer is writer

    assert keeps_its_buffer(KEPT_BYTES)
    assert keeps_its_buffer(KEPT_BYTES // KEPT_SHARE)
    assert not keeps_its_buffer(KEPT_BYTES // KEPT_SHARE - 1)
    assert keeps_its_buffer(100)
    assert not keeps_its_buffer(KEPT_BYTES + 1)
