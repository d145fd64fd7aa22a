-- Where a schedule was imported from, and what it is called there: an import finds its own schedules again, and which of them
-- are gone from its file.
ALTER TABLE schedules ADD COLUMN imported_from text;
ALTER TABLE schedules ADD COLUMN imported_as text;
CREATE INDEX schedules_imported ON schedules (tenant, imported_from) WHERE imported_from IS NOT NULL;
