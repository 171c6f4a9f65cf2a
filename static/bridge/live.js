/*
 * Keeps the live strip up to date: a snapshot, then deltas in order; a gap is closed by asking for a snapshot.
 * Without this script the page shows the numbers of its loading.
 */
"use strict";

(() => {
  const WAIT_FIRST_MS = 500;
  const WAIT_MAX_MS = 30000;
  /* The server says something every two seconds; whoever hears nothing for so long is cut off. */
  const SILENCE_MS = 8000;
  const HIDDEN_MS = 60000;
  const NOT_ALLOWED = 4403;

  const strip = document.getElementById("live");
  const status = document.getElementById("live-status");
  if (!strip || !window.WebSocket) return;

  let socket = null;
  let number = 0;
  let values = {};
  let failures = 0;
  let silence = 0;
  let retry = 0;
  let hide = 0;
  let resyncedAt = 0;
  let isOver = false;

  function say(text) {
    if (status.textContent !== text) status.textContent = text;
  }

  function connect() {
    clearTimeout(retry);
    const scheme = location.protocol === "https:" ? "wss:" : "ws:";
    socket = new WebSocket(`${scheme}//${location.host}${strip.dataset.path}`);
    socket.addEventListener("message", (event) => take(JSON.parse(event.data)));
    socket.addEventListener("close", (event) => closed(event.code));
    listen();
  }

  function listen() {
    clearTimeout(silence);
    silence = setTimeout(() => socket && socket.close(), SILENCE_MS);
  }

  function closed(code) {
    clearTimeout(silence);
    socket = null;
    number = 0;
    if (isOver) return;
    if (code === NOT_ALLOWED) {
      say("not allowed any more: reload the page");
      return;
    }
    if (document.hidden) {
      say("paused");
      return;
    }
    say("connection lost, trying again");
    const wait = Math.min(WAIT_MAX_MS, WAIT_FIRST_MS * 2 ** failures);
    failures += 1;
    retry = setTimeout(connect, wait / 2 + (Math.random() * wait) / 2);
  }

  function take(message) {
    listen();
    failures = 0;
    if (message.type === "snapshot") {
      values = message.values;
      number = message.number;
    } else if (number && message.number === number + 1) {
      Object.assign(values, message.values);
      number = message.number;
    } else if (message.number > number) {
      resync();
      return;
    } else {
      return;
    }
    show();
  }

  function resync() {
    const now = Date.now();
    if (now < resyncedAt + 600) return;
    resyncedAt = now;
    socket.send(JSON.stringify({ type: "resync" }));
  }

  /* As the filter `compact` writes it on the server. */
  function compact(value) {
    for (const [size, letter] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
      if (value >= 10 * size || (value >= size && size > 1e3)) {
        return (value / size).toLocaleString("en", { minimumFractionDigits: 1, maximumFractionDigits: 1 }) + letter;
      }
    }
    return value.toLocaleString("en");
  }

  function written(element, value) {
    if (value === null || value === undefined) return "–";
    return "compact" in element.dataset ? compact(value) : value.toLocaleString("en", { maximumFractionDigits: 1 });
  }

  function show() {
    say(values.is_stale ? "the database doesn't answer: these numbers are old" : "live");
    for (const element of strip.querySelectorAll("[data-live]")) {
      const value = element.dataset.live.split(".").reduce((at, name) => (at === undefined || at === null ? at : at[name]), values);
      const text = written(element, value);
      if (element.textContent !== text) element.textContent = text;
    }
    showCredentials(values.credentials || {});
    showErrors(values.last_errors || []);
  }

  function made(tag, text, attributes) {
    const element = document.createElement(tag);
    if (text !== undefined) element.textContent = text;
    for (const [name, value] of Object.entries(attributes || {})) element.setAttribute(name, value);
    return element;
  }

  function replace(id, items, key) {
    const list = document.getElementById(id);
    if (list.dataset.shown === key) return;
    list.dataset.shown = key;
    list.replaceChildren(...items());
  }

  function showCredentials(counts) {
    const states = Object.entries(counts);
    replace("live-credentials", () => {
      if (!states.length) return [made("li", "none yet", { class: "bridge-subtle" })];
      return states.map(([state, count]) => {
        const item = made("li", undefined, { class: "bridge-state", "data-state": state });
        item.append(made("b", String(count)), ` ${state}`);
        return item;
      });
    }, JSON.stringify(states));
  }

  function showErrors(errors) {
    replace("live-errors", () => {
      if (!errors.length) return [made("li", "none in the last day", { class: "bridge-subtle" })];
      return errors.map((error) => {
        const item = made("li");
        const link = made("a", undefined, { href: strip.dataset.request.replace("REQUEST", encodeURIComponent(error.request_id)) });
        link.append(made("time", error.started_at.slice(11, 19)), ` ${(error.error_type || error.state).replaceAll("_", " ")}`);
        const who = made("span", undefined, { class: "bridge-subtle" });
        who.append(made("bdi", error.user_name), ", ", made("bdi", error.upstream_model), ", ", made("bdi", error.credential_label));
        item.append(link, " ", who);
        return item;
      });
    }, JSON.stringify(errors.map((error) => error.id)));
  }

  document.addEventListener("visibilitychange", () => {
    clearTimeout(hide);
    if (document.hidden) {
      hide = setTimeout(() => socket && socket.close(), HIDDEN_MS);
    } else if (!socket) {
      failures = 0;
      connect();
    }
  });
  window.addEventListener("pagehide", () => {
    isOver = true;
    if (socket) socket.close();
  });
  window.addEventListener("pageshow", (event) => {
    if (event.persisted) {
      isOver = false;
      connect();
    }
  });
  connect();
})();
