"""The host side: data loading, files, imports, processes, threads, and compiled programs."""
