"""The screen of ``spanwire top``: tables of a live broker, with textual around figures that need no terminal."""
