"""Networks of brokers: a bridge takes what consumers of a remote broker ask for and forwards it to that broker."""
