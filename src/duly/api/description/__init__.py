"""The API described: OpenAPI, schemas, examples, and the page at /docs."""
