// A copy button beside each text marked with data-copy. Without JavaScript there is no button, and the text is still there.
for (const text of document.querySelectorAll("[data-copy]")) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "button small";
  button.textContent = "Copy";
  button.setAttribute("aria-label", `Copy ${text.dataset.copy}`);
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text.textContent);
      button.textContent = "Copied";
    } catch {
      // Not allowed, or no secure context: select it for the keyboard.
      getSelection().selectAllChildren(text);
      button.textContent = "Press Ctrl+C";
    }
    setTimeout(() => { button.textContent = "Copy"; }, 2500);
  });
  text.after(button);
}
