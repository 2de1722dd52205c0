"""Broker URLs and the settings that their options contain. Pure."""
