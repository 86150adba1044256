"""What surrounds the computation: data, files, imports, processes, threads, and what was compiled."""
