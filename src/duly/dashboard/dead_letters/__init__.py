"""What the pages of dead letters show: their groups, and replays and discards of many, batch by batch."""
