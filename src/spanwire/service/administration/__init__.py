"""An operator's views and actions beyond the broker: connectors, memory and disk, stored messages."""
