"""Series: what becomes of a due head, of an edit, and of occurrences that pass. Skip this for one-shot timers."""
