"""The experiments, one kind of run to a file: which runs there are, and how one is carried out."""
