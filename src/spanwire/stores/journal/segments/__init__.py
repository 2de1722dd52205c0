"""The files of a journal: records in segments, and the disk as the journal sees it. Pure."""
