"""Celery beat: the ``beat_schedule`` of an application, and the tables of django-celery-beat."""
