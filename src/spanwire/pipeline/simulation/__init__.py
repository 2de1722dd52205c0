"""Networks of up to a million brokers on paper: what demand, messages and advisories would do there."""
