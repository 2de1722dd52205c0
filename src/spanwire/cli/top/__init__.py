"""The screen of ``spanwire top``: tables of a live broker, with textual around terminal-free figures."""
