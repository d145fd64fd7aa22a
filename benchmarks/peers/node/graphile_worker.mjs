import { Logger, makeWorkerUtils, run } from "graphile-worker";
import { count, instant, note, orders, ready } from "./gate.mjs";

const CHUNK = 5000;
const [role, connectionString, mode] = process.argv.slice(2);
const onTime = mode === "on-time";
const logger = new Logger(() => () => {});

if (role === "add") {
  const utils = await makeWorkerUtils({ connectionString, logger });
  await utils.migrate();
  for await (const dues of orders(CHUNK)) {
    await utils.addJobs(dues.map((due) => ({ identifier: "bench", payload: { due }, runAt: instant(due) })));
  }
  await utils.release();
} else {
  let runner;
  await ready(() => runner.stop());
  runner = await run({
    preset: {
      worker: {
        connectionString,
        concurrentJobs: 24,
        maxPoolSize: 25,
        localQueue: { size: 500 },
        completeJobBatchDelay: 0,
        failJobBatchDelay: 0,
        pollInterval: onTime ? 5 : 2000,
        logger,
      },
    },
    noHandleSignals: true,
    taskList: {
      async bench(payload) {
        if (onTime) note(payload.due);
        else count();
      },
    },
  });
}
