// Keeps the part of a page that is marked `live` fresh while it is busy and somebody looks.
"use strict";

// The part may say in how many seconds it is read again.
const period = () => 1000 * (document.getElementById("live")?.dataset.every ?? 1);

// What can be opened, by its key or else by its place.
function openable(part) {
  const found = Array.from(part.querySelectorAll("details"));
  return found.map((it, index) => [it.dataset.key ?? index, it]);
}

// What somebody writes, or has chosen, would be lost.
function typed(part) {
  const fields = Array.from(part.querySelectorAll("input, textarea"));
  return fields.some((it) => it.value !== it.defaultValue || it === document.activeElement);
}

async function fresh() {
  const response = await fetch(location.href, { headers: { accept: "text/html" } });
  if (!response.ok) return null;
  const page = new DOMParser().parseFromString(await response.text(), "text/html");
  return page.getElementById("live");
}

async function refresh() {
  const old = document.getElementById("live");
  if (!old || !("busy" in old.dataset)) return;
  if (document.visibilityState === "visible" && document.activeElement?.tagName !== "BUTTON") {
    try {
      const part = await fresh();
      if (part) {
        // What the reader has opened stays open; what has no key is only ever added below.
        const open = new Map(openable(old).map(([key, it]) => [key, it.open]));
        openable(part).forEach(([key, it]) => (it.open = open.get(key) ?? false));
        if (!part.isEqualNode(old) && !typed(old)) old.replaceWith(part);
      }
    } catch {
      // The server may be on its way back.
    }
  }
  setTimeout(refresh, period());
}

setTimeout(refresh, period());
