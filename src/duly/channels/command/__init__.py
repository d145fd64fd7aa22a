"""Commands: programs and lines of shell that a worker runs on its own machine."""
