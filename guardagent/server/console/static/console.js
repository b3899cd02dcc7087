// Keeps parts of a page fresh, and reads files into forms. Without it, the pages work and show what was so when they
// were loaded.
"use strict";

// A file can be chosen for a text that is otherwise pasted.
for (const text of document.querySelectorAll("textarea[data-upload]")) {
  const file = document.createElement("input");
  file.type = "file";
  file.setAttribute("aria-label", `A file for: ${document.querySelector(`label[for=${text.id}]`).textContent}`);
  file.addEventListener("change", async () => { if (file.files.length) text.value = await file.files[0].text(); });
  text.after(file);
}

for (const part of document.querySelectorAll("[data-refresh]")) {
  const bar = document.createElement("p");
  const status = document.createElement("span");
  const button = document.createElement("button");
  let paused = false;
  bar.className = "refresh";
  status.setAttribute("role", "status");
  button.type = "button";
  button.className = "quiet";
  bar.append(status, " ", button);
  part.before(bar);

  const show = (text) => { if (status.textContent !== text) status.textContent = text; };
  const name = () => { button.textContent = paused ? "Continue" : "Pause"; };
  button.addEventListener("click", () => { paused = !paused; name(); show(paused ? "Paused." : "Live."); });
  name();
  show("Live.");

  const keys = (root) => new Set([...root.querySelectorAll("[data-key]")].map((one) => one.dataset.key));

  const refresh = async () => {
    // a person who is inside is not interrupted
    if (paused || document.hidden || part.contains(document.activeElement)) return;
    const answer = await fetch(part.dataset.refresh, { headers: { "X-Refresh": "1" } });
    if (answer.redirected || answer.status === 401) { show("You are signed out; load the page again."); paused = true; name(); return; }
    if (!answer.ok) { show("The server did not answer; the page may be outdated."); return; }
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").body;
    if (part.contains(document.activeElement)) return;
    const before = keys(part);
    const added = [...keys(fresh)].filter((key) => !before.has(key)).length;
    const moves = String([...before]) !== String([...keys(fresh)]) && part.querySelector("[data-approve]");  // a click is for what was seen
    if (moves && part.matches(":hover")) { show("The list has changed; it shows this when the pointer leaves it."); return; }
    part.replaceChildren(...fresh.childNodes);
    if (moves) { part.inert = true; setTimeout(() => { part.inert = false; }, 700); }
    for (const one of part.querySelectorAll("[data-key]")) if (!before.has(one.dataset.key)) one.classList.add("fresh");
    show(added ? `${added} ${part.dataset.name}.` : "Live.");
  };

  const again = async () => {
    try { await refresh(); } catch { show("The server cannot be reached; the page may be outdated."); }
    setTimeout(again, Number(part.dataset.seconds) * 1000);
  };
  setTimeout(again, Number(part.dataset.seconds) * 1000);
}

// Keys for answers. All but "y" only move, and "y" works only on a button that approves. Enter never approves: it may be
// meant for what was there before.
const hint = (button, text) => { button.closest(".card").querySelector("output").textContent = text; };
document.addEventListener("keydown", (event) => {
  const at = document.activeElement;
  const approves = at.matches("[data-approve]");
  if (event.key === "Enter" && approves) { event.preventDefault(); hint(at, "Enter approves nothing. Press y or the space bar to approve."); return; }
  if (event.ctrlKey || event.metaKey || event.altKey || event.repeat || at.matches("input, select, textarea")) return;
  const cards = [...document.querySelectorAll(".card:has([data-approve])")];
  const card = at.closest(".card:has([data-approve])") ?? (cards.length === 1 ? cards[0] : null);
  const next = cards[cards.indexOf(card) + (event.key === "j" ? 1 : -1)];
  if (event.key === "y" && approves) at.click();
  else if (event.key === "a" && card) { const button = card.querySelector("[data-approve]"); button.focus(); hint(button, "Press y to approve."); event.preventDefault(); }
  else if (event.key === "r" && card) { card.querySelector("[name=reason]").focus(); event.preventDefault(); }
  else if ((event.key === "j" || event.key === "k") && next) (next.querySelector("h3 a") ?? next.querySelector("button")).focus();
});
