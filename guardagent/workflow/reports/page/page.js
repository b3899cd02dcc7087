"use strict";
(() => {
  // Names stand in the page as text only: nothing here writes markup.
  const get = (id) => document.getElementById(id);
  const picture = get("picture"), scroll = get("scroll"), facts = get("node-facts");
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const smooth = matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth";

  // --- size of the graph ---------------------------------------------------------------------------------------------
  const width = picture.viewBox.baseVal.width, height = picture.viewBox.baseVal.height;
  let zoom = 1;
  function resize(wanted) {
    const x = (scroll.scrollLeft + scroll.clientWidth / 2) / zoom, y = (scroll.scrollTop + scroll.clientHeight / 2) / zoom;
    zoom = Math.min(3, Math.max(0.05, wanted));
    picture.setAttribute("width", Math.round(width * zoom));
    picture.setAttribute("height", Math.round(height * zoom));
    scroll.scrollTo(x * zoom - scroll.clientWidth / 2, y * zoom - scroll.clientHeight / 2);
  }
  const whole = () => Math.min(scroll.clientWidth / width, scroll.clientHeight / height, 1.25);
  const actions = {
    "-": () => resize(zoom / 1.25), "+": () => resize(zoom * 1.25), "1": () => resize(1), "fit": () => resize(whole()),
  };
  all("[data-zoom]").forEach((button) => button.addEventListener("click", () => actions[button.dataset.zoom]()));
  scroll.addEventListener("wheel", (event) => {
    if (event.ctrlKey || event.metaKey) {
      event.preventDefault();
      resize(zoom * (event.deltaY < 0 ? 1.12 : 1 / 1.12));
    }
  }, { passive: false });
  let held = null;
  scroll.addEventListener("pointerdown", (event) => {
    if (event.pointerType === "mouse" && event.button === 0) {
      held = { x: event.clientX + scroll.scrollLeft, y: event.clientY + scroll.scrollTop, moved: false };
    }
  });
  addEventListener("pointermove", (event) => {
    if (!held) return;
    const left = held.x - event.clientX, top = held.y - event.clientY;
    if (Math.abs(left - scroll.scrollLeft) + Math.abs(top - scroll.scrollTop) > 4) {
      held.moved = true;
      scroll.classList.add("held");
    }
    if (held.moved) scroll.scrollTo(left, top);
  });
  addEventListener("pointerup", () => {
    // A click comes after this; one that ended a drag is none.
    setTimeout(() => { held = null; scroll.classList.remove("held"); });
  });

  function bring(element) {
    const box = element.getBoundingClientRect(), frame = scroll.getBoundingClientRect();
    const out = box.left < frame.left || box.right > frame.right || box.top < frame.top || box.bottom > frame.bottom;
    if (out) {
      scroll.scrollBy({
        left: (box.left + box.right - frame.left - frame.right) / 2,
        top: (box.top + box.bottom - frame.top - frame.bottom) / 2, behavior: smooth,
      });
    }
  }
  function within(list, element) {
    const box = element.getBoundingClientRect(), frame = list.getBoundingClientRect();
    if (box.top < frame.top) list.scrollTop -= frame.top - box.top;
    if (box.bottom > frame.bottom) list.scrollTop += box.bottom - frame.bottom;
  }

  // --- nodes ---------------------------------------------------------------------------------------------------------
  const nodes = all(".node[id]", picture);
  function choose(node) {
    all(".chosen, tr.shown").forEach((one) => one.classList.remove("chosen", "shown"));
    nodes.forEach((one) => one.setAttribute("aria-pressed", String(one === node)));
    facts.replaceChildren();
    facts.hidden = !node;
    if (!node) return;
    node.classList.add("chosen");
    const row = get("row-" + node.id);
    row.classList.add("shown");
    const names = all("thead th").map((one) => one.textContent);
    [...row.cells].forEach((cell, index) => {
      if (!cell.textContent.trim()) return;
      const line = document.createElement("p");
      const name = document.createElement("b");
      name.textContent = names[index] + ": ";
      line.append(name, cell.textContent.replace(/\s+/g, " ").trim());
      facts.append(line);
    });
    const found = all(".card .to-node").filter((one) => one.dataset.node === node.id);
    found.forEach((one) => {
      const line = document.createElement("p");
      const link = document.createElement("a");
      link.href = "#" + one.closest(".card").id;
      link.textContent = one.closest(".card").querySelector(".message").textContent;
      line.append(link);
      facts.append(line);
    });
  }
  nodes.forEach((node, index) => {
    node.setAttribute("role", "button");
    node.setAttribute("tabindex", index ? "-1" : "0");
    node.setAttribute("aria-label", node.querySelector("title").textContent);
    node.setAttribute("aria-pressed", "false");
    node.addEventListener("click", () => { if (!held?.moved) choose(node.classList.contains("chosen") ? null : node); });
    node.addEventListener("focus", () => {
      nodes.forEach((one) => one.setAttribute("tabindex", one === node ? "0" : "-1"));
      if (node.matches(":focus-visible")) bring(node);
    });
    node.addEventListener("keydown", (event) => {
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (event.key === "Enter" || event.key === " ") choose(node.classList.contains("chosen") ? null : node);
      else if (step) nodes[(index + step + nodes.length) % nodes.length].focus();
      else return;
      event.preventDefault();
    });
  });
  all(".to-node").forEach((button) => button.addEventListener("click", () => {
    const node = get(button.dataset.node);
    choose(node);
    get("scroll").scrollIntoView({ block: "nearest", behavior: smooth });
    bring(node);
  }));

  // --- walks ---------------------------------------------------------------------------------------------------------
  const walker = get("walker");
  if (walker) {
    const which = get("which"), list = get("steps"), status = get("status"), message = get("walk-message");
    let steps = [], turn = null, at = -1, rounds = 0;
    const clear = () => {
      picture.classList.remove("walking");
      all(".path-node, .path-arrow", picture).forEach((one) => {
        one.classList.remove("path-node", "path-arrow", "passed", "passed-arrow", "here");
      });
      all(".card.shown").forEach((one) => one.classList.remove("shown"));
    };
    const arrowsOf = (step) => step.dataset.arrows.split(" ").filter(Boolean).map(get);
    function load() {
      const path = get("path-" + which.value);
      turn = path.dataset.turn === undefined ? null : Number(path.dataset.turn);
      steps = [...path.children];
      message.textContent = path.closest(".card").querySelector(".message").textContent.replace(/\s+/g, " ").trim();
      list.replaceChildren(...steps.map((step, index) => {
        const item = document.createElement("li"), button = document.createElement("button");
        button.type = "button";
        button.append(...[...step.cloneNode(true).children]);
        button.addEventListener("click", () => go(index));
        item.classList.toggle("turns", index === turn || (turn !== null && index === steps.length - 1));
        item.append(button);
        return item;
      }));
      at = -1;
      rounds = 0;
      show();
    }
    function show() {
      clear();
      [...list.children].forEach((item, index) => {
        item.classList.toggle("done", index <= at);
        if (index === at) item.firstChild.setAttribute("aria-current", "step");
        else item.firstChild.removeAttribute("aria-current");
      });
      get("first").disabled = get("previous").disabled = at <= 0;
      get("next").disabled = at === steps.length - 1 && turn === null;
      get("last").disabled = at === steps.length - 1;
      get("stop").disabled = at < 0;
      if (at < 0) {
        status.textContent = "Press → or “Next” to begin.";
        return;
      }
      picture.classList.add("walking");
      steps.forEach((step, index) => {
        get(step.dataset.node)?.classList.add("path-node");
        arrowsOf(step).forEach((arrow) => arrow.classList.add("path-arrow"));
        if (index <= at) {
          get(step.dataset.node)?.classList.add("passed");
          arrowsOf(step).forEach((arrow) => arrow.classList.add("passed-arrow"));
        }
      });
      const step = steps[at], node = get(step.dataset.node), text = (name) => step.querySelector(name)?.textContent;
      const words = [text(".condition"), text(".name"), text(".kind"), text(".calls")].filter(Boolean).join(", ");
      const round = rounds ? `, round ${rounds + 1}` : "";
      status.textContent = `Step ${at + 1} of ${steps.length}${round}: ${words}`;
      within(list, list.children[at]);
      if (node) {
        node.classList.add("here");
        bring(node);
      }
      step.closest(".card").classList.add("shown");
    }
    function go(index) {
      at = Math.max(-1, Math.min(steps.length - 1, index));
      if (at <= (turn ?? 0)) rounds = 0;
      show();
    }
    function next() {
      if (at < steps.length - 1) go(at + 1);
      else if (turn !== null) {
        // The last step of a cycle is its first: the next one is the second.
        rounds += 1;
        at = turn + 1;
        show();
      }
    }
    const other = (step) => {
      which.selectedIndex = (which.selectedIndex + step + which.length) % which.length;
      load();
      go(0);
    };
    const stop = () => { at = -1; rounds = 0; show(); };
    get("next").addEventListener("click", next);
    get("previous").addEventListener("click", () => go(Math.max(0, at - 1)));
    get("first").addEventListener("click", () => go(0));
    get("last").addEventListener("click", () => go(steps.length - 1));
    get("stop").addEventListener("click", stop);
    which.addEventListener("change", () => { load(); go(0); });
    all("[data-walk]").forEach((button) => {
      button.hidden = false;
      button.addEventListener("click", () => {
        which.value = button.dataset.walk;
        load();
        go(0);
        walker.scrollIntoView({ block: "nearest", behavior: smooth });
        get("next").focus({ preventScroll: true });
      });
    });
    addEventListener("keydown", (event) => {
      const target = event.target instanceof Element ? event.target : document.body;
      if (event.ctrlKey || event.metaKey || event.altKey || target.closest("input, select, textarea")) return;
      const here = walker.contains(target);
      const keys = {
        ArrowRight: () => (event.shiftKey ? other(1) : next()),
        ArrowLeft: () => (event.shiftKey ? other(-1) : at > 0 && go(at - 1)),
        Home: here && (() => go(0)), End: here && (() => go(steps.length - 1)), Escape: stop,
      };
      if (keys[event.key]) {
        keys[event.key]();
        event.preventDefault();
      }
    }, { capture: true });
    walker.hidden = false;
    load();
  }

  // --- light and dark ------------------------------------------------------------------------------------------------
  const theme = get("theme"), themes = ["system", "light", "dark"];
  theme.addEventListener("click", () => {
    const chosen = themes[(themes.indexOf(document.documentElement.dataset.theme ?? "system") + 1) % themes.length];
    if (chosen === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = chosen;
    theme.textContent = "Theme: " + chosen;
  });
  theme.hidden = false;
  all(".zoom").forEach((one) => { one.hidden = false; });
  // All of it where that can be read; else from the entry on.
  resize(Math.max(whole(), 0.6));
  bring(picture.querySelector(".entry") ?? picture);
})();
