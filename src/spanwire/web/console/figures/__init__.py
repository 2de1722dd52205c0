"""Figures over time: history in bounded memory (`history`), the recorder, and charts."""
