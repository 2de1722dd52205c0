"""Projects of routes: the templates of their files, and the writer of ``spanwire pipeline init``."""
