"""``python -m spanwire``: the same command as ``spanwire``."""

from __future__ import annotations

import signal
import sys

if sys.argv[1:] == ["bridge", "jvm"]:
    # A service manager may send the broker's to all processes. The imports take a second, and children of uvloop
    # do not inherit that their parent ignores it.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)

from spanwire.cli.main import main

if __name__ == "__main__":
    raise SystemExit(main())
