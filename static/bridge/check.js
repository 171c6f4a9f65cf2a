// Make the checks of a model in requests of their own, a few at once, and show each as it ends.
// Without JavaScript the form makes them all in one request, and the same page comes back.
const form = document.querySelector("[data-checks]");
const progress = document.querySelector("[data-progress]");
const concluded = document.querySelector("[data-concluded]");
const rows = () => [...document.querySelectorAll("[data-check]")];

async function post(url, words) {
  const body = new FormData(form);
  for (const [name, value] of Object.entries(words)) body.set(name, value);
  const answer = await fetch(url, { method: "POST", body });
  if (answer.redirected) location.reload();
  if (answer.redirected || !answer.ok) throw new Error(`status ${answer.status}`);
  return answer.text();
}

function reset(row) {
  delete row.dataset.verdict;
  row.querySelector("[data-word]").textContent = "waiting";
  row.querySelectorAll("p").forEach((old) => old.remove());
}

async function make(row) {
  row.querySelector("[data-word]").textContent = "asking";
  try {
    row.outerHTML = await post(form.dataset.one, { check: row.dataset.check });
  } catch (fault) {
    row.dataset.verdict = "failed";
    row.querySelector("[data-word]").textContent = "failed";
    const words = document.createElement("p");
    words.textContent = `Bridge gave no answer (${fault.message}).`;
    row.querySelector("div").append(words);
  }
}

async function conclude() {
  const verdicts = rows().map((row) => [`verdict-${row.dataset.check}`, row.dataset.verdict]);
  concluded.innerHTML = await post(form.dataset.conclusion, Object.fromEntries(verdicts));
  concluded.querySelector("h2").focus();
}

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const button = form.querySelector("button");
  const waiting = rows();
  const count = waiting.length;
  let made = 0;
  const tell = () => { progress.textContent = `${made} of ${count} checks made`; };
  const lane = async () => {
    for (let row = waiting.shift(); row; row = waiting.shift()) {
      await make(row);
      made += 1;
      tell();
    }
  };
  button.disabled = true;
  concluded.replaceChildren();
  waiting.forEach(reset);
  tell();
  await Promise.all(Array.from({ length: Number(form.dataset.atOnce) }, lane));
  try {
    await conclude();
  } catch (fault) {
    progress.textContent = `Bridge gave no conclusion (${fault.message}).`;
  }
  button.disabled = false;
});
