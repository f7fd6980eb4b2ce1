// Keeps the page live: uploads with progress, and cards that follow what the organization tells.
"use strict";

const organization = document.getElementById("line").dataset.organization;
const base = document.documentElement.dataset.base ?? ""; // where a host program serves us
const api = `${base}/api/organizations/${organization}`;
const cards = document.getElementById("cards");
const progress = document.getElementById("progress");
const drop = document.getElementById("drop");

// One file after the other gets a line of its own, with how far it is.
function upload(file, as) {
  const line = document.createElement("li");
  const name = document.createElement("span");
  const bar = document.createElement("progress");
  const say = document.createElement("span");
  name.textContent = file.name;
  bar.max = 1;
  line.append(name, bar, say);
  progress.append(line);
  const form = new FormData();
  if (as) form.append("name", as);
  form.append("file", file);
  const request = new XMLHttpRequest();
  request.open("POST", `${api}/uploads`);
  request.upload.onprogress = (it) => { if (it.lengthComputable) bar.value = it.loaded / it.total; };
  request.onload = () => {
    if (request.status === 202) {
      line.remove();
      refresh();
      return;
    }
    let detail = `error ${request.status}`;
    try { detail = JSON.parse(request.responseText).detail; } catch { /* not ours */ }
    bar.remove();
    say.textContent = detail;
    say.className = "error";
  };
  request.onerror = () => { say.textContent = "the server did not answer"; say.className = "error"; };
  request.send(form);
}

// The server draws the cards, so that there is one way to draw them.
let wanted = 0, busy = false;
async function refresh() {
  wanted += 1;
  if (busy) return;
  busy = true;
  while (0 < wanted) {
    wanted = 0;
    try {
      const answer = await fetch(location.href, { headers: { accept: "text/html" } });
      if (!answer.ok) break;
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      place(page.getElementById("cards"));
      for (const id of ["notice", "pages"]) {
        const here = document.getElementById(id), fresh = page.getElementById(id);
        if (!here.isEqualNode(fresh)) here.replaceWith(fresh);
      }
      const empty = page.getElementById("empty"), here = document.getElementById("empty");
      if (here && !empty) here.remove();
      if (!here && empty) cards.after(empty);
    } catch { break; }
  }
  busy = false;
}

// Whatever is the same stays where it is: an element that is taken out while the mouse is pressed
// on it gets no click, and what is open stays open.
function place(fresh) {
  const old = new Map([...cards.children].map((it) => [it.dataset.name, it]));
  const next = [...fresh.children].map((it) => {
    const before = old.get(it.dataset.name);
    if (!before) return it;
    const open = before.querySelector("details")?.open;
    const closed = before.cloneNode(true);
    closed.querySelectorAll("details").forEach((it) => it.removeAttribute("open"));
    if (closed.isEqualNode(it)) return before;
    if (open) it.querySelector("details")?.setAttribute("open", "");
    return it;
  });
  const same = next.length === cards.children.length && next.every((it, at) => it === cards.children[at]);
  if (!same) cards.replaceChildren(...next);
}

// While there is something to say about the classifier, how far it is changes without an event.
function watchNotice() {
  if (document.getElementById("notice").children.length) refresh();
}

async function act(form) {
  const path = form.action.slice(location.origin.length).split("/");
  const [name, what] = path.slice(-2);
  const retry = what === "retry";
  const url = `${api}/uploads/${name}${retry ? "/retry" : ""}`;
  if (!retry) form.closest(".card").remove();
  await fetch(url, { method: retry ? "POST" : "DELETE" });
  refresh();
}

function listen() {
  const line = document.getElementById("line");
  const source = new EventSource(`${api}/events`);
  source.onopen = () => { line.textContent = "live"; line.className = "badge done"; refresh(); };
  source.onerror = () => { line.textContent = "connecting…"; line.className = "badge waiting"; };
  source.onmessage = (it) => {
    const told = JSON.parse(it.data);
    const entry = document.createElement("li");
    entry.textContent = `${told.type} ${told.name ?? ""} ${told.label ?? told.error ?? told.message ?? ""}`;
    const feed = document.querySelector("#feed ol");
    feed.prepend(entry);
    while (100 < feed.children.length) feed.lastChild.remove();
    if (told.type === "upload_deleted") {
      cards.querySelector(`[data-name="${CSS.escape(told.name)}"]`)?.remove();
    }
    refresh();
  };
}

if (drop) {
  drop.querySelector("button").hidden = true;
  drop.addEventListener("submit", (it) => it.preventDefault());
  const file = document.getElementById("file");
  file.addEventListener("change", () => { [...file.files].forEach((it) => upload(it)); file.value = ""; });
  for (const kind of ["dragover", "dragleave", "drop"]) {
    drop.addEventListener(kind, (it) => {
      it.preventDefault();
      drop.classList.toggle("over", kind === "dragover");
      if (kind === "drop") [...it.dataTransfer.files].forEach((file) => upload(file));
    });
  }
  cards.addEventListener("submit", (it) => { it.preventDefault(); act(it.target); });
  cards.addEventListener("change", (it) => {
    const name = it.target.closest(".card").dataset.name;
    [...it.target.files].forEach((file) => upload(file, name));
    it.target.value = "";
  });
  document.body.classList.add("scripted");
  setInterval(watchNotice, 2000);
  listen();
}
