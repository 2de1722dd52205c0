"""Salvage of a damaged store: finds the undamaged records and plans the repair. Pure."""
