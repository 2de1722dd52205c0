"""``spanwire network lint``: faults in the files of a network, by the rules that bridges go by."""
