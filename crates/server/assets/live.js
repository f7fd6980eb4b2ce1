// Refreshes the part of a page that is marked `live` while it is busy and the page is visible.
"use strict";

// The part may set its refresh interval in seconds.
const period = () => 1000 * (document.getElementById("live")?.dataset.every ?? 1);

// Elements that can be opened, by key or else by position.
function openable(part) {
  const found = Array.from(part.querySelectorAll("details"));
  return found.map((it, index) => [it.dataset.key ?? index, it]);
}

// A refresh would discard typed or selected input.
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
        // Opened elements stay open; elements without a key are only appended.
        const open = new Map(openable(old).map(([key, it]) => [key, it.open]));
        openable(part).forEach(([key, it]) => (it.open = open.get(key) ?? false));
        if (!part.isEqualNode(old) && !typed(old)) old.replaceWith(part);
      }
    } catch {
      // The server may be restarting.
    }
  }
  setTimeout(refresh, period());
}

setTimeout(refresh, period());
