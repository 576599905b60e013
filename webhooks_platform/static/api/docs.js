// Finds operations by what is typed, copies examples, and marks where the reader is. The page reads well without it.
"use strict";

const find = document.getElementById("find");
const lines = [...document.querySelectorAll("nav [data-find]")];
const none = document.querySelector("nav .none");

find.addEventListener("input", () => {
  const words = find.value.toLowerCase().split(/\s+/).filter(Boolean);
  for (const line of lines) line.hidden = !words.every((word) => line.dataset.find.includes(word));
  for (const group of document.querySelectorAll("nav .groups > li:not([data-find])")) {
    group.hidden = !group.querySelector("ol > li:not([hidden])");
  }
  none.hidden = lines.some((line) => !line.hidden);
});

for (const button of document.querySelectorAll("button.copy")) {
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(button.closest("figure").querySelector("pre").textContent);
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  });
}

// The shell's variables hold this very address.
for (const pre of document.querySelectorAll("#start-1 pre")) {
  pre.textContent = pre.textContent.replace("https://webhooks.example.com", location.origin);
}

const menu = document.querySelector("details.menu");
const narrow = window.matchMedia("(max-width: 900px)");
const fit = () => { menu.open = !narrow.matches; };
narrow.addEventListener("change", fit);
fit();
menu.addEventListener("click", (event) => { if (narrow.matches && event.target.closest("a")) menu.open = false; });

const links = new Map([...document.querySelectorAll("nav ol ol a")].map((link) => [link.hash.slice(1), link]));
const seen = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    if (!entry.isIntersecting) continue;
    for (const link of document.querySelectorAll("nav a[aria-current]")) link.removeAttribute("aria-current");
    const link = links.get(entry.target.id);
    if (!link) continue;
    link.setAttribute("aria-current", "true");
    if (!narrow.matches) link.scrollIntoView({ block: "nearest" });
  }
}, { rootMargin: "-10% 0px -80% 0px" });
for (const article of document.querySelectorAll("article")) seen.observe(article);
