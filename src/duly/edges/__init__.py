"""The doors: how people and programs reach Duly from outside."""
