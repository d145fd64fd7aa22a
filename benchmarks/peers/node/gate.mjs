// The measured process's side of the protocol with the measuring process, as in benchmarks/gate.py.
import readline from "node:readline";

const REPORT_INTERVAL = 5; // milliseconds between two reports of handled events, when a rate is measured
const REPORT_INTERVAL_ON_TIME = 250; // milliseconds, when lateness or idle use is measured
const lines = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]();

export const late = []; // seconds
let handled = 0;

export function count() {
  handled += 1;
}

export function note(due) {
  late.push((performance.timeOrigin + performance.now()) / 1e3 - due / 1e6);
  handled += 1;
}

/** Writes "ready", waits for "go", and from then on reports progress; calls stop on "stop". */
export async function ready(stop) {
  say("ready");
  if ((await hear()) !== "go") process.exit(1);
  let told = 0;
  setInterval(() => {
    if (handled !== told) {
      told = handled;
      say(`handled ${told}`);
    }
  }, process.argv[4] === "on-time" ? REPORT_INTERVAL_ON_TIME : REPORT_INTERVAL);
  hear().then(async (word) => {
    if (word !== "stop") process.exit(1); // the measuring process has ended
    say(`late ${JSON.stringify(late)}`);
    await stop();
    process.exit(0);
  });
}

/** The orders of the measuring process, one after the other: chunks of due times in µs. */
export async function* orders(size) {
  say("ready");
  for (let word = await hear(); word && word !== "stop"; word = await hear()) {
    const [events, first, step] = word.split(" ").map(Number);
    for (let start = 0; start < events; start += size) {
      const length = Math.min(size, events - start);
      yield Array.from({ length }, (_, n) => first + (start + n) * step);
    }
    say("done");
  }
}

export function instant(due) {
  return new Date(due / 1000);
}

async function hear() {
  const { value, done } = await lines.next();
  return done ? "" : value.trim();
}

function say(words) {
  process.stdout.write(`> ${words}\n`);
}
