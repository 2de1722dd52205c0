"""The machine of a broker: clocks, time zone, allocator, interpreter."""
