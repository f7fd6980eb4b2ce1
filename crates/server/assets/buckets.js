// Uploads the files of the form one by one, and shows the progress. The form also works without it.
"use strict";

const form = document.getElementById("upload");
const shown = document.getElementById("progress");
const problem = document.getElementById("problem");

function megabytes(bytes) {
  return `${(bytes / 1e6).toFixed(1)} MB`;
}

function show(name, done, total) {
  shown.hidden = false;
  shown.querySelector("progress").value = total ? done / total : 1;
  shown.querySelector("span").textContent = `${name}: ${megabytes(done)} of ${megabytes(total)}`;
}

// The error of a failed request.
function reason(request) {
  try {
    return JSON.parse(request.responseText).detail;
  } catch {
    return "the server did not respond";
  }
}

// Fetch does not report the progress of an upload.
function send(file) {
  return new Promise((done, failed) => {
    const request = new XMLHttpRequest();
    const key = encodeURIComponent(form.dataset.prefix + file.name);
    request.open("PUT", form.dataset.objects + key);
    if (file.type) request.setRequestHeader("content-type", file.type);
    request.upload.onprogress = (event) => show(file.name, event.loaded, file.size);
    request.onload = () => (request.status === 200 ? done() : failed(reason(request)));
    request.onerror = () => failed(reason(request));
    request.send(file);
  });
}

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const button = form.querySelector("button");
  button.disabled = true;
  problem.hidden = true;
  for (const file of form.elements.file.files) {
    show(file.name, 0, file.size);
    try {
      await send(file);
    } catch (text) {
      problem.textContent = `${file.name}: ${text}`;
      problem.hidden = false;
      button.disabled = false;
      shown.hidden = true;
      return;
    }
  }
  location.reload();
});
