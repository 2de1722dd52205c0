"""Projects of routes: the templates of the files, and the writer of ``spanwire pipeline init``."""
