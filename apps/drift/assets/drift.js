// Follows a comparison that is under way; the server draws.
"use strict";

async function refresh() {
  const answer = await fetch(location.href, { headers: { accept: "text/html" } }).catch(() => null);
  if (!answer?.ok) return;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const [here, fresh] = [document.getElementById("result"), page.getElementById("result")];
  if (here && fresh && !here.isEqualNode(fresh)) here.replaceWith(fresh);
}

const result = document.getElementById("result");
if (result && (result.dataset.status === "running" || !document.querySelector(".causes"))) {
  const source = new EventSource(`/api/compare/${result.dataset.id}/events`);
  source.onopen = refresh;
  source.onmessage = refresh;
}

const swap = document.getElementById("swap");
if (swap) {
  swap.hidden = false;
  swap.addEventListener("click", () => {
    const form = document.getElementById("compare");
    for (const what of ["Url", "Label"]) {
      const [left, right] = [form.elements[`left${what}`], form.elements[`right${what}`]];
      [left.value, right.value] = [right.value, left.value];
    }
  });
}
