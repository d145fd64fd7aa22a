"""pg-boss, fetching and completing in batches; the script is ``node/pg_boss.mjs``."""

from benchmarks.peers.node_peer import NodePeer


class PgBoss(NodePeer):
    title = "pg-boss"
    package = "pg-boss"
    script = "pg_boss.mjs"
    # Handlers get a whole batch, which has one outcome. Four workers in a process, so that one fetches while another
    # completes: 1.5 times as fast as one worker. It cannot poll more often than every half second.
    settings = (
        "work() with batchSize=1000, localConcurrency=4, burstWhenBatchFull, pollingIntervalSeconds=0.5; "
        "insert in chunks of 5,000"
    )
    keeps = "finished jobs for a week, without history; a handler gets a batch, which succeeds or fails as a whole"
    left_sql = "SELECT count(*) FROM pgboss.job WHERE name = 'bench' AND state < 'completed'"
    ended_sql = "SELECT count(*) FROM pgboss.job WHERE name = 'bench' AND state = 'completed'"


PEERS = {"pg_boss": PgBoss()}
