from __future__ import annotations

import pytest

from spanwire.model.errors import ConfigurationError
from spanwire.pipeline.sending import batch_name


def test_a_batch_is_named_by_its_query_and_number() -> None:
    assert batch_name("5f0c", "0") == "5f0c/0"


@pytest.mark.parametrize(("query", "batch"), [(None, "0"), ("5f0c", None), ("", ""), (None, None)])
def test_batches_that_cannot_be_told_apart_are_not_sent_with_the_same_ids(query: str | None, batch: str | None) -> None:
    with pytest.raises(ConfigurationError, match="duplicateIdProperty"):
        batch_name(query, batch)
