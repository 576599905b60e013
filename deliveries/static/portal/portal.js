// The portal's own script. Every page works without it; with it, times are in the reader's zone, lists and progress
// refresh themselves, things are copied with a click, and forms answer while somebody types.
(() => {
  "use strict";

  // ── Times: the server writes UTC, the reader's zone is known here ──
  const zoned = new Intl.DateTimeFormat(document.documentElement.lang || undefined, { dateStyle: "medium", timeStyle: "medium" });
  const times = (root) => root.querySelectorAll("time[datetime]").forEach((time) => {
    const at = new Date(time.dateTime);
    if (Number.isNaN(at.getTime())) return;
    if ("moment" in time.dataset) {
      time.title = time.textContent;
      time.textContent = zoned.format(at);
    } else time.title = zoned.format(at);
  });

  // ── Copying ──
  const copiers = (root) => root.querySelectorAll("[data-copies]").forEach((button) => { button.hidden = false; });
  document.addEventListener("click", async (event) => {
    const button = event.target instanceof Element ? event.target.closest("[data-copies]") : null;
    if (!button) return;
    try {
      await navigator.clipboard.writeText(document.getElementById(button.dataset.copies).textContent.trimEnd());
      button.textContent = document.body.dataset.copied;
    } catch {
      getSelection().selectAllChildren(document.getElementById(button.dataset.copies));
      button.textContent = document.body.dataset.press;
    }
  });

  // ── Times that pass: "5 min ago", "in 23 h 59 min", in the words of the page ──
  const units = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
  const inWords = (seconds) => {
    const words = JSON.parse(document.body.dataset.units), told = [];
    let left = Math.round(seconds);
    for (const [index, [, size]] of units.entries()) {
      const count = Math.floor(left / size);
      left -= count * size;
      if (count || told.length) told.push(count ? `${count} ${words[index]}` : "");
      if (told.length === 2) break;
    }
    return told.filter(Boolean).join(" ");
  };
  const pass = () => document.querySelectorAll("time[data-ago]").forEach((time) => {
    const seconds = (Date.now() - new Date(time.dateTime).getTime()) / 1000;
    if (!(Math.abs(seconds) >= 1)) return;
    const { ago, ahead } = document.body.dataset;
    const text = (seconds > 0 ? ago : ahead).replace("#", inWords(Math.abs(seconds)));
    if (time.textContent !== text) time.textContent = text;
  });
  setInterval(() => { if (!document.hidden) pass(); }, 1000);

  // ── Times that somebody types: shown and typed in the reader's zone, sent in UTC ──
  const pad = (number) => String(number).padStart(2, "0");
  const local = (at) => `${at.getFullYear()}-${pad(at.getMonth() + 1)}-${pad(at.getDate())}T${pad(at.getHours())}:${pad(at.getMinutes())}`;
  const typed = (root) => {
    root.querySelectorAll("input[data-local]").forEach((input) => {
      if (input.value) input.value = local(new Date(`${input.value}Z`));
    });
    root.querySelectorAll("[data-zone]").forEach((zone) => { zone.textContent = `(${Intl.DateTimeFormat().resolvedOptions().timeZone})`; });
  };
  document.addEventListener("formdata", (event) => event.target.querySelectorAll("input[data-local]").forEach((input) => {
    if (input.value) event.formData.set(input.name, new Date(input.value).toISOString().slice(0, 16));
  }));

  // ── Live parts: fetched again every few seconds while somebody looks, and left alone while somebody uses them ──
  const live = () => [...document.querySelectorAll("[data-live][data-every]")];
  const sourceOf = (part) => part.dataset.from || location.href;
  let timer = null, rounds = 0;
  const MOST_ROUNDS = 900; // a page that is left open stops asking after an hour or so
  const inUse = (part) => !part.dataset.from && part.contains(document.activeElement) && document.activeElement.matches("input, select, textarea, button, summary") || !part.dataset.from && part.querySelector("input:checked, details[data-keep][open]");
  const schedule = () => {
    clearTimeout(timer);
    const parts = live();
    if (parts.length && rounds < MOST_ROUNDS) timer = setTimeout(() => refresh(), Math.min(...parts.map((part) => Number(part.dataset.every))) * 1000);
  };
  // What says the same is left as it is, or screen readers would say it again and again.
  const isSame = (part, fresh) => "state" in part.dataset ? part.dataset.state === fresh.dataset.state : part.dataset.seen === fresh.innerHTML;
  async function refresh(isSent = false) {
    const parts = live();
    if (!parts.length) return;
    if (document.hidden) return schedule();
    rounds += 1;
    for (const source of new Set(parts.map(sourceOf))) await refreshFrom(source, parts, isSent);
    schedule();
  }
  async function refreshFrom(source, parts, isSent) {
    const idle = parts.filter((part) => sourceOf(part) === source && !inUse(part));
    if (!idle.length) return;
    try {
      const answer = await fetch(source, { headers: { "X-Requested-With": "fetch" }, credentials: "same-origin" });
      if (!answer.ok || answer.redirected) return;
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      idle.forEach((part) => {
        const fresh = page.getElementById(part.id);
        if (fresh && !inUse(part) && (isSent || !isSame(part, fresh))) replace(part, fresh, isSent);
      });
    } catch { /* The server may be restarting: the next round tells. */ }
  }
  const replace = (part, fresh, isSent) => {
    const active = part.contains(document.activeElement) ? document.activeElement : null;
    const open = [...part.querySelectorAll("details")].map((each) => each.open);
    fresh.dataset.seen = fresh.innerHTML;
    part.replaceWith(fresh);
    improve(fresh);
    const details = fresh.querySelectorAll("details");
    if (details.length === open.length) details.forEach((each, index) => { each.open = open[index]; });
    if (active?.matches("a")) fresh.querySelector(`a[href="${CSS.escape(active.getAttribute("href"))}"]`)?.focus();
    if (isSent || active?.matches("button")) fresh.querySelector("button")?.focus();
  };

  // ── A form that leaves its page as it is: what came of it shows in the live part around it ──
  document.addEventListener("submit", async (event) => {
    const form = event.target;
    if (!("stay" in form.dataset)) return;
    event.preventDefault();
    form.querySelector("button").disabled = true;
    let note = null;
    try {
      const answer = await fetch(form.action, { method: "POST", body: new FormData(form), credentials: "same-origin" });
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      note = page.querySelector("main > .note.wait");
    } catch { /* The line says what is known. */ }
    await refresh(true);
    const told = document.querySelector("[data-told]");
    if (note && told) {
      told.hidden = false;
      told.textContent = note.textContent.trim();
    }
  });

  // ── The picker of event types: searching, and a family that takes in its members ──
  const family = (box) => {
    const set = box.closest("fieldset");
    set?.querySelectorAll(".inner input").forEach((each) => { each.disabled = box.checked; });
  };
  const everything = (picker) => {
    const all = picker.querySelector("[data-everything]");
    picker.querySelectorAll("fieldset, .find").forEach((set) => { set.hidden = all.checked; });
  };
  const pickers = (root) => root.querySelectorAll("[data-picker]").forEach((picker) => {
    picker.querySelector(".find").hidden = false;
    picker.querySelectorAll("[data-family]").forEach(family);
    if (picker.querySelector("[data-everything]")) everything(picker);
  });
  document.addEventListener("change", (event) => {
    if (event.target.matches?.("[data-family]")) family(event.target);
    if (event.target.matches?.("[data-everything]")) everything(event.target.closest("[data-picker]"));
  });
  document.addEventListener("input", (event) => {
    if (!event.target.matches?.("[data-search]")) return;
    const words = event.target.value.trim().toLowerCase().split(/\s+/);
    const list = document.getElementById(event.target.dataset.search);
    list.querySelectorAll("[data-name]").forEach((row) => { row.hidden = !words.every((word) => row.dataset.name.toLowerCase().includes(word)); });
    list.querySelectorAll("[data-group]").forEach((group) => { group.hidden = ![...group.querySelectorAll("[data-name]")].some((row) => !row.hidden); });
  });

  // ── A URL is looked at while it is typed ──
  let asking = null;
  document.addEventListener("input", (event) => {
    const input = event.target;
    if (!input.matches?.("[data-check]")) return;
    const verdict = document.getElementById(input.getAttribute("aria-describedby"));
    clearTimeout(asking);
    verdict.className = "soft verdict";
    verdict.textContent = "";
    if (!input.value.trim()) return;
    asking = setTimeout(async () => {
      const asked = input.value;
      try {
        const answer = await fetch(`${input.dataset.check}?url=${encodeURIComponent(asked)}`, { credentials: "same-origin" });
        if (!answer.ok || input.value !== asked) return;
        const found = await answer.json();
        verdict.classList.add(found.ok ? "good" : "bad");
        verdict.textContent = found.text;
      } catch { /* Saving says the same. */ }
    }, 350);
  });

  // ── Selecting deliveries ──
  document.addEventListener("change", (event) => {
    const form = event.target.form;
    if (!form || !("selection" in form.dataset)) return;
    const boxes = [...document.querySelectorAll(`input[name=delivery][form="${form.id}"]`)];
    if ("all" in event.target.dataset) boxes.forEach((box) => { box.checked = event.target.checked; });
    const count = boxes.filter((box) => box.checked).length;
    const button = form.querySelector("button");
    const { replayNone, replaySome } = document.body.dataset;
    button.textContent = count ? replaySome.replace("#", count) : replayNone;
  });

  // ── An example is put into the form when its event type is chosen ──
  document.addEventListener("change", (event) => {
    if (!event.target.matches?.("[data-submits]")) return;
    event.target.form.requestSubmit();
  });

  const improve = (root) => { times(root); pass(); copiers(root); pickers(root); typed(root); };
  document.addEventListener("DOMContentLoaded", () => { improve(document); schedule(); });
})();
