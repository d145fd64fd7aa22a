-- Templates of schedules: settings under a name, which a new schedule copies.
CREATE TABLE templates (
    tenant    text NOT NULL,
    name      text NOT NULL,
    settings  text NOT NULL,
    via       text,
    created   integer NOT NULL,
    updated   integer NOT NULL,
    PRIMARY KEY (tenant, name)
) STRICT;
