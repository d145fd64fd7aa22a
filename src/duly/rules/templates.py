"""Named templates of common rules."""

from typing import NamedTuple


class Template(NamedTuple):
    cron: str
    meaning: str


TEMPLATES = {
    "every-minute": Template("* * * * *", "every minute"),
    "every-5-minutes": Template("*/5 * * * *", "every five minutes"),
    "every-15-minutes": Template("*/15 * * * *", "every quarter of an hour"),
    "hourly": Template("0 * * * *", "every hour, on the hour"),
    "business-hours": Template("0 9-17 * * MON-FRI", "on the hour, 9:00 to 17:00, Monday to Friday"),
    "daily-midnight": Template("0 0 * * *", "every day at midnight"),
    "daily-9am": Template("0 9 * * *", "every day at 9:00"),
    "weekday-mornings": Template("0 9 * * MON-FRI", "Monday to Friday at 9:00"),
    "weekly-monday-8am": Template("0 8 * * MON", "every Monday at 8:00"),
    "monthly-first-9am": Template("0 9 1 * *", "on the first of the month at 9:00"),
    "monthly-last-day": Template("0 18 L * *", "on the last day of the month at 18:00"),
    "quarterly": Template("0 9 1 1,4,7,10 *", "on the first day of each quarter at 9:00"),
    "yearly": Template("0 0 1 1 *", "on New Year's Day at midnight"),
}
