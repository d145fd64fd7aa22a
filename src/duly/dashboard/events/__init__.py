"""What the pages of events show: which events, when in words, and the timeline of one."""
