"""The verbs of users and their bulk import, over HTTP."""
