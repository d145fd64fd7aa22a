-- Templates of schedules: settings under a name, which a new schedule copies.
CREATE TABLE duly.templates (
    tenant    text COLLATE "C" NOT NULL,
    name      text COLLATE "C" NOT NULL,
    settings  json NOT NULL,
    via       text COLLATE "C",
    created   timestamptz NOT NULL,
    updated   timestamptz NOT NULL,
    PRIMARY KEY (tenant, name)
);

ALTER TABLE duly.templates ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON duly.templates
    USING (NOT duly.confined() OR coalesce(tenant = nullif(current_setting('duly.tenant', true), ''), false));
