"""A data engineer who follows the tutorial loses no order and sends no bill twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.patience import SPARK_S
from tests.support.tutorials import Tutorial


@pytest.mark.long
@pytest.mark.timeout(3 * SPARK_S)
def test_a_data_engineer_archives_a_queue_and_sends_each_bill_once(tmp_path: Path) -> None:
    with Tutorial("tutorials/data-engineer.md", tmp_path) as tutorial:
        tutorial.follow()
