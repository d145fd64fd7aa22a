"""How a worker tells that it lives: a row that it writes with each beat. No other step of the path reads it."""
