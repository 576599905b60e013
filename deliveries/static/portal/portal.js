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

  // ── Live parts: fetched again every few seconds while somebody looks, and left alone while somebody uses them ──
  const live = () => document.querySelector("[data-live][data-every]");
  let timer = null, rounds = 0;
  const MOST_ROUNDS = 900; // a page that is left open stops asking after an hour or so
  const inUse = (part) => !part.dataset.from && part.contains(document.activeElement) && document.activeElement.matches("input, select, textarea, button, summary") || !part.dataset.from && part.querySelector("input:checked, details[data-keep][open]");
  const schedule = () => {
    clearTimeout(timer);
    const part = live();
    if (part && rounds < MOST_ROUNDS) timer = setTimeout(() => refresh(), Number(part.dataset.every) * 1000);
  };
  // What says the same is left as it is, or screen readers would say it again and again.
  const isSame = (part, fresh) => "state" in part.dataset && part.dataset.state === fresh.dataset.state;
  async function refresh(isSent = false) {
    const part = live();
    if (!part) return;
    if (document.hidden || inUse(part)) return schedule();
    rounds += 1;
    try {
      const answer = await fetch(part.dataset.from || location.href, { headers: { "X-Requested-With": "fetch" }, credentials: "same-origin" });
      if (answer.ok && !answer.redirected) {
        const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById(part.id);
        if (fresh && !inUse(part) && (isSent || !isSame(part, fresh))) {
          const active = part.contains(document.activeElement) ? document.activeElement : null;
          part.replaceWith(fresh);
          improve(fresh);
          if (active?.matches("a")) fresh.querySelector(`a[href="${CSS.escape(active.getAttribute("href"))}"]`)?.focus();
          if (isSent || active?.matches("button")) fresh.querySelector("button")?.focus();
        }
      }
    } catch { /* The server may be restarting: the next round tells. */ }
    schedule();
  }

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

  const improve = (root) => { times(root); copiers(root); pickers(root); };
  document.addEventListener("DOMContentLoaded", () => { improve(document); schedule(); });
})();
