"""The machine that a broker runs on: clocks, time zone, allocator, interpreter."""
