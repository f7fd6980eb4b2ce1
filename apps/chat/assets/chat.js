// A chat room. Lines have numbers: a new connection continues after the highest one seen. Each line
// that the user sends has a key, and stays in an outbox until the server sends it back. No line is
// lost or shown twice.
"use strict";

const WAIT_MIN_MS = 200;
const WAIT_MAX_MS = 5000;
// The page sends a heartbeat at this interval. After BEATS_MAX without an answer it reconnects.
const BEAT_MS = 20000;
const BEATS_MAX = 2;
const EARLIER = 50;
const MISSED = 500;
const IDLE = 1000; // the code of a close

const part = (id) => document.getElementById(id);
const room = part("chat")?.dataset.room; // none on the page that asks for one
const base = document.documentElement.dataset.base ?? ""; // where a host program serves us
const url = `${base}/v1/objects/chat/${encodeURIComponent(room)}`;
const outboxKey = `chat outbox ${room}`;

let myName = sessionStorage.getItem("chat name") ?? "";
let outbox = JSON.parse(sessionStorage.getItem(outboxKey) ?? "[]");
let sent = null; // the key on its way
let seen = null; // the highest number, once there was a connection
let missed = []; // lines between two numbers that were not told
const shown = new Set(); // numbers of lines

let socket = null;
let again = 0; // the timer until the next try
let wait = WAIT_MIN_MS;
let silentBeats = 0;

// --- what is seen ------------------------------------------------------------------------------

function element(tag, className, text) {
  const made = document.createElement(tag);
  made.className = className;
  made.textContent = text; // never markup
  return made;
}

function item(who, text, at) {
  const made = element("li", who === myName ? "own" : "", "");
  made.append(element("span", "who", who), at, element("p", "text", text));
  return made;
}

function time(at) {
  const date = new Date(at);
  const made = element("time", "", date.toLocaleTimeString([], { timeStyle: "short" }));
  made.dateTime = date.toISOString();
  made.title = date.toLocaleString();
  return made;
}

// Changes the list. A list that was scrolled to its end stays there.
function changing(change) {
  const talk = part("talk");
  const isAtEnd = talk.scrollHeight - talk.scrollTop - talk.clientHeight < 40;
  change();
  if (isAtEnd) talk.scrollTop = talk.scrollHeight;
}

function showLine(line) {
  if (shown.has(line.id)) return;
  shown.add(line.id);
  const made = item(line.who, line.text, time(line.at));
  made.dataset.id = line.id;
  let next = null;
  let last = part("lines").lastElementChild;
  while (last && line.id < Number(last.dataset.id)) {
    [next, last] = [last, last.previousElementSibling];
  }
  part("lines").insertBefore(made, next);
}

function showOutbox() {
  sessionStorage.setItem(outboxKey, JSON.stringify(outbox));
  const items = outbox.map((it) => item(myName, it.text, element("span", "quiet", "sending…")));
  changing(() => part("pending").replaceChildren(...items));
}

function showState(text, kind) {
  part("state").textContent = text;
  part("state").className = `badge ${kind}`;
}

function showProblem(text) {
  part("problem").textContent = text;
  part("problem").hidden = !text;
}

// --- what is said ------------------------------------------------------------------------------

// One at a time, so that a problem that comes back is about this one.
function send() {
  const first = outbox[0];
  if (!first || sent === first.key || socket?.readyState !== WebSocket.OPEN) return;
  sent = first.key;
  socket.send(JSON.stringify(first));
}

function say(text) {
  outbox.push({ key: crypto.randomUUID(), text });
  showProblem("");
  showOutbox();
  part("talk").scrollTop = part("talk").scrollHeight;
  if (socket || again) send();
  else connect();
}

function refused(problem) {
  const [first] = outbox;
  if (first?.key === sent) {
    outbox.shift();
    part("text").value ||= first.text;
    showOutbox();
  }
  showProblem(`Refused: ${problem.detail}`);
  send();
}

// --- what is heard -----------------------------------------------------------------------------

function heardLine(line) {
  seen = Math.max(seen ?? 0, line.id);
  changing(() => showLine(line));
  if (!outbox.some((it) => it.key === line.key)) return;
  outbox = outbox.filter((it) => it.key !== line.key);
  showOutbox();
  send();
}

// The server sends the list of members last when a connection begins, after the missed lines.
function heardNames(names) {
  seen ??= 0;
  wait = WAIT_MIN_MS;
  showState("connected", "done");
  part("here").replaceChildren(...names.map((it) => element("li", it === myName ? "own" : "", it)));
  send();
  fillMissed().catch(() => {}); // the next connection tries again
}

function hear(event, isFirstVisit) {
  if (event.problem) refused(event.problem);
  else if (event.kind === "line") heardLine(event);
  else if (event.kind === "here") heardNames(event.names);
  else if (event.kind === "earlier" && isFirstVisit) part("earlier").hidden = false;
  else if (event.kind === "earlier") missed.push(event);
}

// Fetches the newest lines between two others.
async function fetchLines(after, before, limit) {
  const headers = { "content-type": "application/json" };
  const body = JSON.stringify({ after, before, limit });
  const response = await fetch(`${url}/calls/history`, { method: "POST", headers, body });
  const lines = await response.json();
  if (!response.ok) throw new Error(lines.detail);
  return lines;
}

async function fillMissed() {
  while (missed.length) {
    const gap = missed[0];
    const lines = await fetchLines(gap.after, gap.before, MISSED);
    changing(() => lines.forEach(showLine));
    if (lines.length === MISSED) gap.before = lines[0].id;
    else missed = missed.filter((it) => it !== gap);
  }
}

async function showEarlier() {
  try {
    const lines = await fetchLines(0, Math.min(...shown), EARLIER);
    const talk = part("talk");
    const below = talk.scrollHeight - talk.scrollTop; // keeps the scroll position
    lines.forEach(showLine);
    part("earlier").hidden = lines.length < EARLIER;
    talk.scrollTop = talk.scrollHeight - below;
    showProblem("");
  } catch (error) {
    showProblem(`Earlier lines could not be read: ${error.message}`);
  }
}

// --- the connection ----------------------------------------------------------------------------

function connect() {
  clearTimeout(again);
  [again, sent, silentBeats] = [0, null, 0];
  part("left").hidden = true;
  showState(seen === null ? "connecting…" : "reconnecting…", "waiting");
  const query = new URLSearchParams({ name: myName });
  if (seen !== null) query.set("after", seen);
  const isFirstVisit = seen === null;
  const mine = new WebSocket(`${location.origin.replace("http", "ws")}${url}/connect?${query}`);
  mine.onmessage = (event) => {
    if (mine !== socket) return;
    silentBeats = 0;
    hear(JSON.parse(event.data), isFirstVisit);
  };
  mine.onclose = (event) => mine === socket && ended(event.code);
  socket = mine;
}

function ended(code) {
  socket = null;
  part("here").replaceChildren();
  part("left").hidden = code !== IDLE;
  if (code === IDLE) return showState("left", "");
  showState("reconnecting…", "waiting");
  again = setTimeout(connect, wait * (0.8 + 0.2 * Math.random()));
  wait = Math.min(2 * wait, WAIT_MAX_MS);
}

function beat() {
  if (!socket) return;
  silentBeats += 1;
  if (BEATS_MAX < silentBeats) {
    socket.close();
    ended();
  } else if (socket.readyState === WebSocket.OPEN) {
    socket.send("ping");
  }
}

// --- coming and going --------------------------------------------------------------------------

function enter() {
  part("enter").hidden = true;
  part("chat").hidden = false;
  showOutbox();
  connect();
  part("text").focus();
}

part("name").value = myName;
part("enter").addEventListener("submit", (event) => {
  event.preventDefault();
  myName = part("name").value.trim();
  sessionStorage.setItem("chat name", myName);
  if (room === undefined) location.assign(`${base}/chat/${encodeURIComponent(part("room").value.trim())}`);
  else enter();
});

if (room !== undefined) {
  part("say").addEventListener("submit", (event) => {
    event.preventDefault();
    say(part("text").value.trim());
    part("text").value = "";
  });
  part("earlier").addEventListener("click", showEarlier);
  part("back").addEventListener("click", connect);
  setInterval(beat, BEAT_MS);
  if (myName) enter();
  else part("enter").hidden = false;
}
