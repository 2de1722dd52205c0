"""Types that all packages share: destinations, messages, ids, announcements, errors, time. Pure, no I/O."""
