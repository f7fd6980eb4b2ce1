// Keeps the page live. The server draws, so that there is one way to draw.
"use strict";

const base = document.documentElement.dataset.base ?? ""; // where a host program serves us
const lines = new Map();
let wanted = false, busy = false;
// Generations that were accepted and that the page does not show yet, each with the time at which
// the page stops looking. The library has a generation a moment after it was accepted.
const awaited = new Map();
const AWAITED_MS = 30000, BETWEEN_MS = 300;
let timer = 0;
// The workspace of this page, where it has to be named.
const workspace = new URLSearchParams(location.search).get("workspace");
const within = workspace === null ? "" : `?workspace=${encodeURIComponent(workspace)}`;

// Swaps what has changed on the server; what is typed stays.
async function refresh() {
  wanted = true;
  if (busy) return;
  busy = true;
  while (wanted) {
    wanted = false;
    try {
      const answer = await fetch(location.href, { headers: { accept: "text/html" } });
      if (!answer.ok) { later(1000); break; }
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      for (const id of ["live", "library"]) merge(document.getElementById(id), page.getElementById(id));
    } catch { later(1000); break; }
  }
  busy = false;
  listen();
  for (const [id, until] of awaited) {
    const isShown = document.querySelector(`.generation[data-id="${id}"], [data-generation="${id}"]`);
    if (isShown || until < Date.now()) awaited.delete(id);
  }
  if (0 < awaited.size) later(BETWEEN_MS);
}

function later(wait) {
  clearTimeout(timer);
  timer = setTimeout(refresh, wait);
}

// Replaces only nodes that differ, so that pictures do not flicker and focus stays.
function merge(here, fresh) {
  if (!here || !fresh || here.isEqualNode(fresh)) return;
  if (here.children.length === 0 || here.children.length !== fresh.children.length
      || ["A", "P", "FORM"].includes(here.tagName)) {
    here.replaceWith(fresh);
    return;
  }
  for (const { name, value } of fresh.attributes) here.setAttribute(name, value);
  const [old, next] = [[...here.children], [...fresh.children]];
  old.forEach((it, index) => {
    if (it.isEqualNode(next[index])) return;
    if (it.tagName === next[index].tagName && it.dataset.id === next[index].dataset.id) merge(it, next[index]);
    else it.replaceWith(next[index]);
  });
}

// Opens one connection for each generation in progress.
function listen() {
  const active = [...document.querySelectorAll('.generation[data-status="active"]')].map((it) => it.dataset.id);
  for (const id of active) {
    if (lines.has(id)) continue;
    const socket = new WebSocket(`${location.origin.replace("http", "ws")}${base}/api/generations/${id}/events${within}`);
    lines.set(id, socket);
    socket.onmessage = refresh;
    socket.onopen = refresh;
    socket.onclose = () => { lines.delete(id); setTimeout(refresh, 1000); };
  }
  for (const [id, socket] of lines) {
    if (active.includes(id)) continue;
    lines.delete(id);
    socket.onmessage = socket.onclose = null;
    // Closed while it connects, the browser would call it an error.
    if (socket.readyState === WebSocket.CONNECTING) socket.onopen = () => socket.close();
    else socket.close();
  }
}

// Stands for the seed in a request; nobody writes it into a prompt.
const SEED = `seed ${crypto.randomUUID()}`;

// The request that has no answer yet. Sending the same again repeats its key.
let open = null;

const bench = document.getElementById("bench");
bench?.addEventListener("submit", async (it) => {
  it.preventDefault();
  const said = document.getElementById("said");
  said.textContent = "";
  said.className = "";
  const fields = Object.fromEntries(new FormData(bench));
  const input = { positivePrompt: fields.prompt.trim() };
  if (fields.width) input.width = Number(fields.width);
  if (fields.height) input.height = Number(fields.height);
  // A seed may be larger than what a number of this language holds: its digits are sent as they are.
  const seed = fields.seed.trim();
  if (seed) input.seed = /^[0-9]+$/.test(seed) ? SEED : seed;
  const tags = fields.tags.split(",").map((it) => it.trim()).filter(Boolean);
  const asked = { model: fields.model, input, count: Number(fields.count), tags };
  if (workspace !== null) asked.workspace = workspace;
  const body = JSON.stringify(asked).replace(JSON.stringify(SEED), seed.replace(/^0+(?=.)/, ""));
  if (open?.body !== body) open = { body, key: crypto.randomUUID() };
  const headers = { "content-type": "application/json", "idempotency-key": open.key };
  const button = bench.querySelector("button.main");
  button.disabled = true;
  const answer = await fetch(`${base}/api/generations`, { method: "POST", headers, body }).catch(() => null);
  button.disabled = false;
  if (answer) open = null;
  if (answer?.status === 202) {
    awaited.set((await answer.json()).id, Date.now() + AWAITED_MS);
    refresh();
    return;
  }
  said.className = "error";
  said.textContent = answer ? (await answer.json().catch(() => ({}))).detail ?? `error ${answer.status}` : "the server did not answer";
});

document.addEventListener("keydown", (it) => {
  if (it.key === "Escape") document.querySelector("#inspector .close")?.click();
});
document.getElementById("inspector")?.focus();
if (bench) listen();
