// Stores the last statements of the SQL form in this browser, per class, and lists them.
"use strict";

const STATEMENTS_MAX = 20;

for (const form of document.querySelectorAll("form[data-statements]")) {
  const key = `steadfast.sql.${form.dataset.statements}`;
  const field = form.elements.sql;
  const list = form.querySelector("ul");

  // Another page may have stored another value under this key.
  const read = () => {
    try {
      const found = JSON.parse(localStorage.getItem(key) ?? "[]");
      return Array.isArray(found) ? found.filter((it) => typeof it === "string") : [];
    } catch {
      return [];
    }
  };

  form.addEventListener("submit", () => {
    const sql = field.value.trim();
    if (!sql) return;
    const all = [sql, ...read().filter((it) => it !== sql)].slice(0, STATEMENTS_MAX);
    try {
      localStorage.setItem(key, JSON.stringify(all));
    } catch {
      // The browser may deny storage.
    }
  });

  const statements = read();
  list.closest("details").hidden = statements.length === 0;
  for (const sql of statements) {
    const item = document.createElement("li");
    const button = document.createElement("button");
    button.type = "button";
    button.className = "statement";
    button.textContent = sql;
    button.addEventListener("click", () => { field.value = sql; field.focus(); });
    item.append(button);
    list.append(item);
  }
}
