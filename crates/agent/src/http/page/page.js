// Keeps the page up to date, and saves reloading it. Without this script everything works by links and forms.
"use strict";
(() => {
  const PERIOD = 3000;
  const PARTS = ["status", "answer", "service", "services"];
  const live = document.getElementById("live");
  let tag = document.documentElement.dataset.tag;
  const seen = new Map();
  let asked = 0;
  let timer;

  const part = (id, root) => root.querySelector("#" + id);

  function tell(text, isBad) {
    if (live.textContent !== text) live.textContent = text;
    live.className = isBad ? "bad" : "on";
  }

  function ago(seconds) {
    if (seconds < 5) return "just now";
    if (seconds < 120) return Math.floor(seconds) + " s ago";
    if (seconds < 7200) return Math.floor(seconds / 60) + " min ago";
    if (seconds < 172800) return Math.floor(seconds / 3600) + " h ago";
    return Math.floor(seconds / 86400) + " days ago";
  }

  function showTimes() {
    for (const time of document.querySelectorAll("time")) {
      const text = ago((Date.now() - Date.parse(time.dateTime)) / 1000);
      time.title = time.dateTime;
      if (time.textContent !== text) time.textContent = text;
    }
  }

  // Put the new parts in place of those that changed; what is focused, opened or selected stays so.
  function swap(page) {
    const selection = getSelection();
    for (const id of PARTS) {
      const [old, fresh] = [part(id, document), part(id, page)];
      if (!old || !fresh || seen.get(id) === fresh.innerHTML) continue;
      if (!selection.isCollapsed && old.contains(selection.anchorNode)) continue;
      const focused = old.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
      const opened = [...old.querySelectorAll("details[open]")].map((one) => one.id);
      seen.set(id, fresh.innerHTML);
      old.replaceChildren(...fresh.childNodes);
      for (const one of opened) part(one, old)?.setAttribute("open", "");
      if (focused !== null) [...old.querySelectorAll("a")].find((a) => a.getAttribute("href") === focused)?.focus();
    }
  }

  // Ask for an address of this page and show it; of several at a time the last one counts.
  async function load(url) {
    const number = ++asked;
    clearTimeout(timer);
    try {
      const reply = await fetch(url, { headers: { "If-None-Match": tag }, cache: "no-store" });
      const text = reply.status === 304 ? null : await reply.text();
      if (number !== asked) return;
      if (text !== null && !reply.ok) throw new Error(reply.status);
      if (text !== null) {
        swap(new DOMParser().parseFromString(text, "text/html"));
        tag = reply.headers.get("ETag");
      }
      tell("live", false);
    } catch {
      if (number !== asked) return;
      tell("No answer from the agent; retrying", true);
    }
    showTimes();
    wait();
  }

  function wait() {
    clearTimeout(timer);
    if (document.visibilityState === "visible") timer = setTimeout(() => load(location.href), PERIOD);
  }

  // Go to an address of this page without loading it as a whole.
  function go(url, isStep) {
    history[isStep ? "pushState" : "replaceState"](null, "", url);
    load(location.href);
  }

  function address(form) {
    const given = [...new FormData(form)].filter(([, value]) => value !== "");
    return "?" + new URLSearchParams(given);
  }

  function fill() {
    const query = new URLSearchParams(location.search);
    for (const input of document.querySelectorAll("form input")) {
      if (input.type === "checkbox") input.checked = query.has(input.name);
      else if (input !== document.activeElement) input.value = query.get(input.name) ?? "";
    }
  }

  for (const form of document.querySelectorAll("form[data-live]")) {
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      go(address(form), true);
    });
    if (form.dataset.live !== "services") continue;
    let pause;
    form.addEventListener("input", () => {
      clearTimeout(pause);
      pause = setTimeout(() => go(address(form), false), 250);
    });
  }

  document.addEventListener("click", (event) => {
    const link = event.target.closest("a");
    const href = link?.getAttribute("href");
    if (!href?.startsWith("?") || event.ctrlKey || event.metaKey || event.shiftKey || event.button !== 0) return;
    event.preventDefault();
    go(href, true);
    fill();
  });
  addEventListener("popstate", () => {
    fill();
    load(location.href);
  });
  document.addEventListener("visibilitychange", () => {
    if (document.visibilityState === "visible") load(location.href);
    else clearTimeout(timer);
  });
  load(location.href);
})();
