"""Charts, as SVG that the server draws: they need no script, and their colours follow the theme."""
