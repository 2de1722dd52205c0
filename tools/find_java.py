"""Say which Java Spark will run on; exit 1 with what is missing when there is none.

PYTHONPATH=src python tools/find_java.py
"""

from __future__ import annotations

import os
import sys

from spanwire.model.errors import ConfigurationError
from spanwire.pipeline.spark.java import bundled_java, java_home


def main() -> int:
    try:
        home = java_home(os.environ, bundled_java())
    except ConfigurationError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(f"Spark runs on the Java of {home}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
