"""``python -m spanwire``: the same command as ``spanwire``."""

from __future__ import annotations

from spanwire.cli.main import main

if __name__ == "__main__":
    raise SystemExit(main())
