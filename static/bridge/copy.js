// A copy button beside each text marked with data-copy. Without JavaScript there is no button, and the text is still there.
// What became of it is told twice: on the button, and in a status for screen readers.
for (const text of document.querySelectorAll("[data-copy]")) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "button small";
  button.textContent = "Copy";
  button.setAttribute("aria-label", `Copy ${text.dataset.copy}`);
  const status = document.createElement("span");
  status.className = "bridge-told";
  status.setAttribute("role", "status");
  const say = (shown, told) => {
    button.textContent = shown;
    status.textContent = told;
  };
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text.textContent);
      say("Copied", `Copied ${text.dataset.copy}.`);
    } catch {
      // Not allowed, or no secure context: select it for the keyboard.
      getSelection().selectAllChildren(text);
      say("Press Ctrl+C", `Selected ${text.dataset.copy}: press Ctrl+C.`);
    }
    setTimeout(() => say("Copy", ""), 2500);
  });
  text.after(button, status);
}
