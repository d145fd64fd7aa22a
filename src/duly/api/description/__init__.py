"""The description of the API: OpenAPI, schemas, examples, and the page at /docs."""
