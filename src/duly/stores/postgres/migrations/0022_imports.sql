-- Where a schedule was imported from, and what it is called there: an import finds its own schedules again, and which of them
-- are gone from its file.
ALTER TABLE duly.schedules ADD COLUMN imported_from text COLLATE "C";
ALTER TABLE duly.schedules ADD COLUMN imported_as text COLLATE "C";
CREATE INDEX schedules_imported ON duly.schedules (tenant, imported_from) WHERE imported_from IS NOT NULL;
