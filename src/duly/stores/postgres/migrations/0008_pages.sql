-- Each tenant's events in the order of their ids, so that a small tenant's are found beside a large one's. Not those of
-- the usual tenant: whoever has no other pays nothing for this.
CREATE INDEX events_tenant ON duly.events (tenant, id) WHERE tenant <> 'default';

-- The last of so many events before an id, whosever it is: what a page of the usual tenant goes by. It sees everybody's,
-- also for a role that may not; so what it tells is blurred, and nobody's id.
CREATE FUNCTION duly.floor_of_all(before uuid, skipped integer) RETURNS uuid
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = '' SET enable_seqscan = off
AS $$
    SELECT (left(last.id::text, 33) || '000')::uuid
    FROM (SELECT id FROM duly.events WHERE id < before ORDER BY id DESC OFFSET skipped LIMIT 1) AS last
$$;
