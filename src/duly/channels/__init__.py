"""The means of delivery: Python handlers, HTTP requests, brokers. Each library is loaded when it is first needed."""
