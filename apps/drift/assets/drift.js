// Follows a comparison that is in progress; the server renders the page.
"use strict";

const base = document.documentElement.dataset.base ?? ""; // where a host program serves us

async function refresh() {
  const answer = await fetch(location.href, { headers: { accept: "text/html" } }).catch(() => null);
  if (!answer?.ok) return;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const [here, fresh] = [document.getElementById("result"), page.getElementById("result")];
  if (!here || !fresh) return;
  // Details that are open stay open.
  const open = new Set([...here.querySelectorAll("details[open] > summary")].map((it) => it.textContent));
  for (const it of fresh.querySelectorAll("details > summary")) {
    it.parentElement.open = open.has(it.textContent);
  }
  if (!here.isEqualNode(fresh)) here.replaceWith(fresh);
}

const isOver = () => {
  const { status } = document.getElementById("result").dataset;
  return status === "failed" || (status === "completed" && document.querySelector("#explanation .causes, #explanation .final"));
};

const result = document.getElementById("result");
if (result && !isOver()) {
  const source = new EventSource(`${base}/api/compare/${result.dataset.id}/events`);
  source.onmessage = async (event) => {
    // The stream also has events of other comparisons of this pair.
    if (JSON.parse(event.data).comparisonId !== result.dataset.id) return;
    await refresh();
    if (isOver()) source.close();
  };
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
