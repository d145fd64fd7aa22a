"""Records as JSON: how they are written, read and described; what is answered beside them; what is asked for."""
