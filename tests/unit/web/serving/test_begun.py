"""Calls that run up to their first wait."""

from __future__ import annotations

import asyncio

import pytest

from spanwire.web.serving.begun import Begun


async def quick() -> str:
    return "at once"


async def slow(noted: list[str]) -> str:
    try:
        await asyncio.sleep(0)
        await asyncio.sleep(0.001)
    except asyncio.CancelledError:
        noted.append("cancelled")
        raise
    return "later"


async def faulty(waits: bool) -> str:
    if waits:
        await asyncio.sleep(0)
    raise ValueError("a fault")


def test_a_call_that_does_not_wait_is_over() -> None:
    begun = Begun(quick())
    assert (begun.is_over, begun.result) == (True, "at once")


def test_a_call_that_waits_goes_on_where_it_was() -> None:
    async def test() -> str:
        begun = Begun(slow([]))
        assert not begun.is_over
        return await begun

    assert asyncio.run(test()) == "later"


def test_a_cancellation_reaches_the_call() -> None:
    noted: list[str] = []

    async def test() -> None:
        begun = Begun(slow(noted))
        async with asyncio.timeout(0):
            await begun

    with pytest.raises(TimeoutError):
        asyncio.run(test())
    assert noted == ["cancelled"]


@pytest.mark.parametrize("waits", [False, True])
def test_a_fault_comes_out(waits: bool) -> None:
    async def test() -> str:
        return await Begun(faulty(waits))

    with pytest.raises(ValueError, match="a fault"):
        asyncio.run(test())
