"""graphile-worker, with its local queue and batched completion; the script is ``node/graphile_worker.mjs``."""

from benchmarks.peers.node_peer import NodePeer


class GraphileWorker(NodePeer):
    title = "graphile-worker"
    package = "graphile-worker"
    script = "graphile_worker.mjs"
    # The settings of its own performance page.
    settings = (
        "concurrentJobs=24, localQueue.size=500, completeJobBatchDelay=0; on time: polling every 5 ms; "
        "addJobs in chunks of 5,000"
    )
    keeps = "deletes finished jobs; no history; a job of a crashed worker waits for four hours"
    left_sql = "SELECT count(*) FROM graphile_worker._private_jobs"


PEERS = {"graphile_worker": GraphileWorker()}
