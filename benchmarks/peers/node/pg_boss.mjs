import { PgBoss } from "pg-boss";
import { count, instant, note, orders, ready } from "./gate.mjs";

const CHUNK = 5000;
const [role, connectionString, mode] = process.argv.slice(2);
const onTime = mode === "on-time";

const boss = new PgBoss({ connectionString });
boss.on("error", (error) => console.error(error));
await boss.start();

if (role === "add") {
  await boss.createQueue("bench");
  for await (const dues of orders(CHUNK)) {
    await boss.insert("bench", dues.map((due) => ({ data: { due }, startAfter: instant(due) })));
  }
  await boss.stop();
} else {
  await ready(() => boss.stop({ graceful: false }));
  const options = { batchSize: 1000, burstWhenBatchFull: true, localConcurrency: 4, pollingIntervalSeconds: 0.5 };
  await boss.work("bench", options, async (jobs) => {
    for (const job of jobs) {
      if (onTime) note(job.data.due);
      else count();
    }
  });
}
