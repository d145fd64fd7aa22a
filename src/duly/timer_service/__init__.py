"""The timer service: takes commands from a broker and publishes events to it. It is an entry point beside the HTTP API
and the command line."""
