"""How long tests wait for a program with Spark before they call it hung."""

from __future__ import annotations

from typing import Final

# From a start of Spark to the first rows of a route takes 15 s on two idle processors. Other work takes its share of
# each step: 68 s were seen at a load of 12, 145 at 21 and 209 at 29. The first start on a machine ends minutes later
# there, because its Java writes the classes that it has loaded.
SPARK_S: Final = 1200.0
