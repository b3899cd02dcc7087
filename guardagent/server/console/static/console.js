// Keeps parts of a page fresh, shows times in the reader's zone, and reads files into forms. Without it, the pages work and show what was so when they
// were loaded.
"use strict";

// Times are in UTC; they become those of the reader's zone, and UTC remains in the hint.
const day = new Intl.DateTimeFormat("sv-SE", { dateStyle: "short", timeStyle: "medium" });
const zoned = new Intl.DateTimeFormat("en-GB", { timeZoneName: "short" });
const localize = (root) => {
  for (const time of root.querySelectorAll("time[datetime]")) {
    const at = new Date(time.dateTime);
    if (Number.isNaN(at.getTime())) continue;
    time.title = time.textContent;
    time.textContent = `${day.format(at)} ${zoned.formatToParts(at).find((part) => part.type === "timeZoneName").value}`;
  }
};
localize(document);

// On a narrow screen the header is a line that scrolls.
document.querySelector(".side [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });

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
  document.querySelector("[data-bar]").append(bar);

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
    localize(fresh);
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

// The number of requests that wait is in the title of every page. A hidden page notifies of new ones if a person wants it.
if (document.body.dataset.count) {
  const title = document.title.replace(/^\(\d+\) /, "");
  const tabs = new BroadcastChannel("approvals");  // another tab has notified already
  const row = document.querySelector("[data-notify]");
  let known = null;
  tabs.addEventListener("message", (event) => known?.add(event.data));

  const can = "Notification" in window;
  const wants = () => can && Notification.permission === "granted" && localStorage.getItem("notify") === "yes";
  const notify = (text, body, tag, target) => {
    if (!document.hidden || !wants()) return;
    const notification = new Notification(text, { body, tag });
    tabs.postMessage(tag);
    notification.addEventListener("click", () => { window.focus(); notification.close(); location.assign(target); });
  };
  const describe = () => {
    row.querySelector("button").textContent = wants() ? "Stop notifying me" : "Notify me";
    row.querySelector("span").textContent = wants() ? "You are notified of new requests while this page is open and hidden."
      : Notification.permission === "denied" ? "Your browser blocks notifications from this address; allow them in its settings." : "";
  };
  if (row && can) {
    row.hidden = false;
    describe();
    row.querySelector("button").addEventListener("click", async () => {
      const starts = !wants();
      if (starts && Notification.permission !== "granted") await Notification.requestPermission();
      localStorage.setItem("notify", starts ? "yes" : "no");
      describe();
    });
  }

  const count = async () => {
    const answer = await fetch(document.body.dataset.count, { headers: { "X-Refresh": "1" } });
    if (answer.redirected || answer.status === 401) {
      document.title = `Signed out · ${title}`;
      notify("You are signed out", "Sign in to hear of new requests.", "signed-out", location.href);
      return false;
    }
    if (!answer.ok) return true;
    const list = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("[data-count]");
    document.title = (list.dataset.count === "0" ? "" : `(${list.dataset.count}) `) + title;
    const fresh = [...list.children].filter((item) => known && !known.has(item.dataset.key));
    known = new Set([...(known ?? []), ...[...list.children].map((item) => item.dataset.key)]);
    for (const item of fresh) {
      const link = item.querySelector("a");
      notify(`Approve ${link.textContent}?`, item.querySelector("span").textContent, item.dataset.key, link.href);
    }
    return true;
  };

  const again = async () => {
    let goes = true;
    try { goes = await count(); } catch { /* the server cannot be reached; it is asked again */ }
    if (goes) setTimeout(again, 5000);
  };
  again();
}

// Keys for answers. All but "y" only move, and "y" works only on a button that approves. Enter never approves: it may be
// meant for what was there before.
const requests = ":is([data-key], section.card, .all):has([data-approve])";
const hint = (button, text) => { button.closest(requests).querySelector("output").textContent = text; };
document.addEventListener("keydown", (event) => {
  const at = document.activeElement;
  const approves = at.matches("[data-approve]");
  if (event.key === "Enter" && approves) { event.preventDefault(); hint(at, "Enter approves nothing. Press y or the space bar to approve."); return; }
  if (event.ctrlKey || event.metaKey || event.altKey || event.repeat || at.matches("input, select, textarea")) return;
  const cards = [...document.querySelectorAll(requests)];
  const card = at.closest(requests) ?? (cards.length === 1 ? cards[0] : null);
  const next = cards[cards.indexOf(card) + (event.key === "j" ? 1 : -1)];
  if (event.key === "y" && approves) at.click();
  else if (event.key === "a" && card) { const button = card.querySelector("[data-approve]"); button.focus(); hint(button, "Press y to approve."); event.preventDefault(); }
  else if (event.key === "r" && card) { card.querySelector("[name=reason]").focus(); event.preventDefault(); }
  else if ((event.key === "j" || event.key === "k") && next) (next.querySelector(":is(h3, h4) a") ?? next.querySelector("button")).focus();
});
