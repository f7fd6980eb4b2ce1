// Submits the code of a login link. It is behind the `#`, so that no server log has it.
const code = location.hash.slice(1);
if (code) {
  history.replaceState(null, "", location.pathname + location.search);
  const form = document.querySelector("form.login");
  form.elements.token.value = `link:${code}`;
  // A session is not replaced silently: somebody else may have sent the link.
  if (!("session" in form.dataset)) form.requestSubmit();
}
