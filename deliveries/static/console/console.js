// The console's own script: live parts, chart tips, dialogs, selection, copying. No library, no inline code.
(() => {
  "use strict";

  // ── Live parts: fetched again every few seconds, while somebody looks and no dialog is open ──
  const live = () => document.querySelector("[data-live][data-every]");
  let waiting = null;
  const schedule = () => {
    const part = live();
    clearTimeout(waiting);
    if (part) waiting = setTimeout(refresh, Number(part.dataset.every) * 1000);
  };
  async function refresh() {
    const part = live();
    if (!part) return;
    if (document.hidden || document.querySelector("dialog[open]")) return schedule();
    try {
      const answer = await fetch(location.href, { headers: { "X-Requested-With": "fetch" }, credentials: "same-origin" });
      if (answer.ok && !answer.redirected) {
        const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById(part.id);
        if (fresh && !document.querySelector("dialog[open]")) replace(part, fresh);
      }
    } catch { /* The server may be restarting: the next round tells. */ }
    schedule();
  }

  // Whoever stands on a link or a button in it stands there afterwards; what was opened stays open.
  const places = "a, button, input, select, summary";
  function replace(part, fresh) {
    const at = standing(part);
    const open = [...part.querySelectorAll("details")].map((each) => each.open);
    part.replaceWith(fresh);
    label(fresh);
    hide();
    fresh.querySelectorAll("details").forEach((each, index) => { if (open[index]) each.open = true; });
    if (at) [...fresh.querySelectorAll(places)].filter((each) => named(each) === at.name)[at.nth]?.focus({ preventScroll: true });
  }
  // A row may have come or gone before it, so a place is known by what it does, and its number among those that do the same.
  const named = (place) => [place.tagName, place.id, place.getAttribute("href"), place.name, place.dataset.opens].join("|");
  function standing(part) {
    const active = document.activeElement;
    if (!active || !part.contains(active) || !active.matches(places)) return null;
    const name = named(active);
    return { name, nth: [...part.querySelectorAll(places)].filter((each) => named(each) === name).indexOf(active) };
  }

  // ── Tables: each cell knows its column, for phones, where a row is a card ──
  const label = (root) => root.querySelectorAll(".c-table").forEach((table) => {
    const names = [...table.querySelectorAll("thead th")].map((head) => head.textContent.trim());
    table.querySelectorAll("tbody tr").forEach((row) => [...row.cells].forEach((cell, at) => {
      if (at && names[at] && row.cells.length === names.length) cell.dataset.label = names[at];
    }));
  });

  // ── Chart tips ──
  const tip = document.createElement("div");
  tip.className = "c-tip";
  tip.hidden = true;
  document.addEventListener("pointermove", (event) => {
    const slot = event.target instanceof Element ? event.target.closest("[data-tip]") : null;
    tip.hidden = !slot;
    if (!slot) return;
    const title = slot.querySelector("title");
    if (title) title.remove(); // the tip says the same, sooner
    tip.textContent = slot.dataset.tip;
    const width = tip.offsetWidth;
    tip.style.left = `${Math.max(8, Math.min(event.clientX - width / 2, innerWidth - width - 8))}px`;
    tip.style.top = `${event.clientY - 42}px`;
  });

  // ── Dialogs and copying ──
  document.addEventListener("click", (event) => {
    if (!(event.target instanceof Element)) return;
    const opener = event.target.closest("[data-opens]");
    if (opener) {
      const dialog = document.getElementById(opener.dataset.opens);
      dialog.showModal();
      dialog.querySelector("input:not([type=hidden]), select")?.focus();
    }
    event.target.closest("[data-closes]")?.closest("dialog").close();
    const copier = event.target.closest("[data-copies]");
    if (copier) {
      navigator.clipboard?.writeText(document.getElementById(copier.dataset.copies).textContent);
      copier.textContent = "Copied";
    }
  });

  // ── Selecting rows ──
  document.addEventListener("change", (event) => {
    const form = event.target.closest?.("[data-selection]");
    if (!form) return;
    const boxes = [...form.querySelectorAll("input[name=delivery]")];
    if (event.target.matches("[data-selection-all]")) boxes.forEach((box) => { box.checked = event.target.checked; });
    const count = boxes.filter((box) => box.checked).length;
    const submit = form.querySelector("[data-selection-submit]");
    submit.disabled = count === 0;
    submit.textContent = count ? `Replay ${count} selected…` : "Replay selected…";
  });

  // ── How long a replay would take ──
  const words = (seconds) => seconds < 90 ? `${Math.ceil(seconds)} s` : seconds < 5400 ? `${Math.round(seconds / 60)} min` : `${(seconds / 3600).toFixed(1)} h`;
  const estimate = (input) => {
    const rate = Number(input.value);
    input.parentElement.querySelector("[data-eta]").textContent = rate > 0 ? `takes ${"more" in input.dataset ? "more than" : "about"} ${words(Number(input.dataset.count) / rate)}` : "as fast as it goes";
  };
  document.addEventListener("input", (event) => { if (event.target.matches?.("[data-rate]")) estimate(event.target); });

  // ── Icons are letters of a font: a screen reader would read their names ──
  const hide = () => document.querySelectorAll(".material-symbols-outlined").forEach((icon) => icon.setAttribute("aria-hidden", "true"));
  const nameIcons = () => document.querySelectorAll("#nav-sidebar a, #login-form ~ a").forEach((link) => {
    const text = [...link.childNodes].filter((part) => !part.matches?.("[aria-hidden]")).map((part) => part.textContent.trim()).join("");
    if (!text && !link.getAttribute("aria-label")) link.setAttribute("aria-label", "Overview");
  });

  document.addEventListener("DOMContentLoaded", () => {
    document.body.append(tip);
    hide();
    nameIcons();
    label(document);
    document.querySelectorAll("[data-rate]").forEach(estimate);
    schedule();
  });
})();
