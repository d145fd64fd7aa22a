"""The pages, one file for each subject."""

from collections.abc import Sequence

from duly.dashboard.pages import Page
from duly.dashboard.views import dead_letters, events, find, now, schedules, system, targets, users, you

SUBJECTS = (now, schedules, events, users, dead_letters, targets, system, find, you)
"""The subjects, in the order of the navigation."""

PAGES: Sequence[Page] = [page for subject in SUBJECTS for page in subject.pages]
