"""The timer service: commands come in over a broker, events go out. A door like the HTTP API and the command line."""
