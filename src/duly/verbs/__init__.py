"""The verbs: what people do with each noun, one file per noun. Every act is atomic, and has a row in the history."""
