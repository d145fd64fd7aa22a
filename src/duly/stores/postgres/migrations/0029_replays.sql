-- Replays with another payload: the new event names the old one, and the old one the latest new one. No foreign keys: each
-- of the two may be deleted when its own retention is over, and the other one then names an event that is gone.
ALTER TABLE duly.events ADD COLUMN replay_of text COLLATE "C", ADD COLUMN replayed_as text COLLATE "C";
