"""Figures over time: their history in bounded memory (`history`), the recorder, and charts."""
