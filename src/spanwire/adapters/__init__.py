"""Spanwire as the broker of other Python libraries; each package has an extra, and reaches the client alone."""
