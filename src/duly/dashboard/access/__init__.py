"""Who visits, and whether a form was sent by a page of the dashboard."""
