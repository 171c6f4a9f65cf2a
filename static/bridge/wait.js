// Ask again for the part marked with data-wait until the server says there is no need to.
const part = document.querySelector("[data-wait]");
const EVERY_MS = 2000;
const LONGEST_MS = 30000;
let pause = EVERY_MS;

async function look() {
  if (document.hidden) return setTimeout(look, EVERY_MS);
  try {
    const answer = await fetch(part.dataset.wait, { headers: { "X-Part": "seen" } });
    if (answer.redirected) return location.reload();
    if (!answer.ok) throw new Error(answer.status);
    part.innerHTML = await answer.text();
    pause = EVERY_MS;
  } catch {
    pause = Math.min(LONGEST_MS, pause * 2);
  }
  if (!part.querySelector("[data-done]")) setTimeout(look, pause);
}

if (part && !part.querySelector("[data-done]")) setTimeout(look, EVERY_MS);
