-- Each tenant's events in the order of their ids, so that a small tenant's are found beside a large one's. Not those of
-- the usual tenant: whoever has no other pays nothing for this.
CREATE INDEX events_tenant ON events (tenant, id) WHERE tenant <> 'default';
