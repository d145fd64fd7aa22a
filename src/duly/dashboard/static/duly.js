// What the pages of the dashboard do in the browser: times, live updates, dialogs, the palette, the theme, copying.
// Everything else is HTML from the server. Pages work without this script, except for live updates.
"use strict";

const root = document.documentElement.dataset.root;
const YEAR_S = 365 * 86400;

// -- the visitor's time zone, in which the server writes times

const zone = Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";
const cookiePath = root || "/";

function setCookie(name, value) {
  const secure = location.protocol === "https:" ? "; secure" : "";
  document.cookie = `${name}=${encodeURIComponent(value)}; path=${cookiePath}; max-age=${YEAR_S}; samesite=strict${secure}`;
}

// (If the cookie says so already, the server does not know the zone, and writes times in UTC.)
const zoneCookie = `duly_zone=${encodeURIComponent(zone)}`;
if (document.documentElement.dataset.zone !== zone && !document.cookie.split("; ").includes(zoneCookie)) {
  setCookie("duly_zone", zone);
  location.reload();
}

// -- times that count on

function short(seconds) {
  if (seconds < 9.95) return `${Math.floor(seconds)} s`;
  const units = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  let left = Math.round(seconds);
  const parts = [];
  for (const [unit, sign] of units) {
    const many = Math.floor(left / unit);
    left -= many * unit;
    if (many || parts.length) parts.push(many ? `${many} ${sign}` : "");
    if (parts.length === 2) break;
  }
  return parts.filter(Boolean).join(" ");
}

// The server's clock may differ from the browser's.
const skew = Date.parse(document.documentElement.dataset.now) - Date.now();

function countOn() {
  const now = Date.now() + skew;
  for (const element of document.querySelectorAll('time[data-kind="near"]')) {
    const away = (Date.parse(element.dateTime) - now) / 1000;
    if (Math.abs(away) > 2 * 86400) continue;
    const words = Math.abs(away) < 1 ? "now" : away > 0 ? `in ${short(away)}` : `${short(-away)} ago`;
    if (element.textContent !== words) element.textContent = words;
  }
}
if (!Number.isNaN(skew)) setInterval(countOn, 1000);

// -- live updates: paused by the button, and in a hidden tab

const live = document.getElementById("live");
const liveButton = document.getElementById("live-button");
let stream = null;
let paused = sessionStorage.getItem("duly-live") === "paused";

function listen() {
  if (!live || stream || paused || document.hidden) return tellLive();
  const page = location.pathname.slice(root.length) + location.search;
  stream = new EventSource(`${root}/live?page=${encodeURIComponent(page || "/")}`);
  stream.addEventListener("live", (event) => {
    if (live.contains(document.activeElement) && document.activeElement.matches("input, select, textarea")) return;
    htmx.swap({ text: event.data, sourceElement: live, target: live, swap: "innerMorph" });
    countOn();
  });
  stream.addEventListener("open", tellLive);
  stream.addEventListener("error", () => {
    if (stream && stream.readyState === EventSource.CLOSED) { stream = null; }
    tellLive();
  });
  tellLive();
}

function endStream() {
  if (stream) stream.close();
  stream = null;
  tellLive();
}

function tellLive() {
  if (!liveButton) return;
  const state = paused ? "paused" : stream && stream.readyState === EventSource.OPEN ? "live" : "waiting";
  liveButton.dataset.state = state;
  liveButton.setAttribute("aria-pressed", String(!paused));
  liveButton.querySelector("span").textContent = paused ? "Paused" : "Live";
}

if (live && liveButton) {
  liveButton.hidden = false;
  liveButton.addEventListener("click", () => {
    paused = !paused;
    sessionStorage.setItem("duly-live", paused ? "paused" : "live");
    if (paused) endStream(); else listen();
  });
  document.addEventListener("visibilitychange", () => (document.hidden ? endStream() : listen()));
  addEventListener("pagehide", endStream);
  listen();
}

// -- dialogs: a link with data-dialog opens the form of an act here; without this script it opens a page

const dialog = document.getElementById("dialog");

document.addEventListener("click", async (event) => {
  const link = event.target.closest("a[data-dialog]");
  if (!link || event.metaKey || event.ctrlKey || event.shiftKey || !dialog) return;
  event.preventDefault();
  await openDialog(link.href);
});

async function openDialog(address) {
  await htmx.ajax("GET", address, { target: "#dialog", swap: "innerHTML" });
  if (!dialog.open) dialog.showModal();
  const first = dialog.querySelector("[autofocus], input:not([type=hidden]), select, textarea, button");
  if (first) first.focus();
}

document.addEventListener("click", (event) => {
  if (event.target.closest("[data-close]")) {
    const open = event.target.closest("dialog");
    if (open) { event.preventDefault(); open.close(); }
  }
});
for (const each of document.querySelectorAll("dialog")) {
  each.addEventListener("click", (event) => { if (event.target === each) each.close(); });
}

// -- copying

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  const text = document.getElementById(button.dataset.copy)?.textContent ?? "";
  try {
    await navigator.clipboard.writeText(text);
    button.dataset.done = "copied";
    setTimeout(() => delete button.dataset.done, 1500);
  } catch {
    getSelection().selectAllChildren(document.getElementById(button.dataset.copy));
  }
});

// -- the palette: "/" or Ctrl-K

const palette = document.getElementById("palette");

function openPalette() {
  if (!palette || palette.open) return;
  palette.showModal();
  palette.querySelector("input").select();
}

document.addEventListener("keydown", (event) => {
  const typing = event.target.matches("input, textarea, select, [contenteditable]");
  if ((event.key === "k" && (event.ctrlKey || event.metaKey)) || (event.key === "/" && !typing)) {
    event.preventDefault();
    openPalette();
  }
  if (palette?.open && (event.key === "ArrowDown" || event.key === "ArrowUp")) {
    const stops = [palette.querySelector("input"), ...palette.querySelectorAll("a")];
    const at = stops.indexOf(document.activeElement);
    const to = stops[(at + (event.key === "ArrowDown" ? 1 : stops.length - 1)) % stops.length];
    if (to) { event.preventDefault(); to.focus(); }
  }
});
for (const button of document.querySelectorAll("[data-palette]")) button.addEventListener("click", openPalette);

// -- light and dark

for (const button of document.querySelectorAll("[data-theme-button]")) {
  button.addEventListener("click", () => {
    const dark = document.documentElement.dataset.theme
      ? document.documentElement.dataset.theme === "dark"
      : matchMedia("(prefers-color-scheme: dark)").matches;
    const chosen = dark ? "light" : "dark";
    document.documentElement.dataset.theme = chosen;
    setCookie("duly_theme", chosen);
  });
}

// -- forms that apply as soon as something is chosen

document.addEventListener("change", (event) => {
  const form = event.target.closest("form[data-apply]");
  if (form && event.target.matches("select, input[type=checkbox], input[type=date]")) form.requestSubmit();
});
