"""Records as JSON, for the API and the command line alike: snake_case, UTC instants that end in Z."""
