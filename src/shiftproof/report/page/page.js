// Makes the page comfortable: tables sort, legends switch lines on and off, values stand beside the pointer.
// Without it everything is there, and stands still.
(() => {
  "use strict";

  // Tables: a click on a heading sorts by its figures, another one turns the order round.
  const figure = cell => {
    const text = (cell.querySelector("b") || cell.firstChild || cell).textContent.trim();
    const number = parseFloat(text.replace(/,/g, ""));
    return Number.isNaN(number) ? text.toLowerCase() : number;
  };
  const before = (a, b) => typeof a === typeof b ? (a < b ? -1 : a > b ? 1 : 0) : typeof a === "number" ? -1 : 1;

  document.querySelectorAll("table[data-sortable]").forEach(table => {
    const heads = [...table.tHead.rows[0].cells], body = table.tBodies[0];
    if (body.rows.length < 2) return;
    heads.forEach((head, place) => {
      const button = document.createElement("button");
      button.type = "button";
      button.title = "sort by this column";
      button.append(...head.childNodes);
      head.append(button);
      head.addEventListener("click", () => {
        // names from A, figures from the largest
        const rows = [...body.rows], first = figure(rows[0].cells[place]);
        const falling = head.ariaSort ? head.ariaSort === "ascending" : typeof first === "number";
        rows.sort((a, b) => (falling ? -1 : 1) * before(figure(a.cells[place]), figure(b.cells[place])));
        heads.forEach(one => one.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", falling ? "descending" : "ascending");
        body.append(...rows);
      });
    });
  });

  // Drawings: what a key of the legend names disappears with it.
  document.querySelectorAll("figure.chart svg").forEach(svg => {
    const off = new Set();
    const show = () => svg.querySelectorAll("[data-of]").forEach(mark => {
      mark.classList.toggle("off", JSON.parse(mark.dataset.of).some(name => off.has(name)));
    });
    const keys = [...svg.querySelectorAll(".key[data-key]")];
    if (keys.length > 1) keys.forEach(key => {
      key.setAttribute("role", "button");
      key.setAttribute("tabindex", "0");
      key.setAttribute("aria-pressed", "true");
      const toggle = () => {
        const name = key.dataset.key, hidden = !off.delete(name);
        if (hidden) off.add(name);
        key.setAttribute("aria-pressed", String(!hidden));
        show();
      };
      key.addEventListener("click", toggle);
      key.addEventListener("keydown", event => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        toggle();
      });
    });
  });

  // The value nearest to the pointer; a title inside a mark is what a browser shows without this.
  const hint = document.createElement("div");
  hint.className = "hint";
  hint.hidden = true;
  hint.setAttribute("role", "status");
  document.body.append(hint);
  document.querySelectorAll("figure.chart svg").forEach(svg => {
    const marks = [...svg.querySelectorAll("[data-at]")].map(mark => {
      const title = mark.querySelector("title"), text = title ? title.textContent : "";
      if (title) title.remove();
      mark.setAttribute("aria-label", text);
      const [x, y] = mark.dataset.at.split(" ").map(Number);
      return { mark, text, x, y };
    });
    if (!marks.length) return;
    let near = null;
    const leave = () => {
      if (near) near.mark.classList.remove("near");
      near = null;
      hint.hidden = true;
    };
    const move = event => {
      const box = svg.getBoundingClientRect(), scale = svg.viewBox.baseVal.width / box.width;
      const x = (event.clientX - box.left) * scale, y = (event.clientY - box.top) * scale;
      let best = null, least = 40;
      for (const one of marks) {
        if (one.mark.closest(".off")) continue;
        const far = one.mark.dataset.box ? inside(one, x, y) : Math.hypot(one.x - x, one.y - y);
        if (far < least) { least = far; best = one; }
      }
      if (best !== near) {
        leave();
        if (best) { near = best; best.mark.classList.add("near"); hint.textContent = best.text; hint.hidden = false; }
      }
      if (best) {
        const wide = hint.offsetWidth, left = Math.min(event.clientX + 14, innerWidth - wide - 8);
        hint.style.left = `${Math.max(8, left)}px`;
        hint.style.top = `${event.clientY + hint.offsetHeight + 24 > innerHeight ? event.clientY - hint.offsetHeight - 12 : event.clientY + 16}px`;
      }
    };
    const inside = (one, x, y) => {
      const [w, h] = one.mark.dataset.box.split(" ").map(Number);
      return Math.abs(one.x - x) <= w / 2 && Math.abs(one.y - y) <= h / 2 ? 0 : Infinity;
    };
    svg.addEventListener("pointermove", move);
    svg.addEventListener("pointerdown", move);
    svg.addEventListener("pointerleave", leave);
  });

  // A link into something folded opens it, and so does printing.
  const reveal = () => {
    const place = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    for (let one = place; one; one = one.parentElement) if (one.tagName === "DETAILS") one.open = true;
    if (place) place.scrollIntoView();
  };
  addEventListener("hashchange", reveal);
  if (location.hash) reveal();
  let folded = [];
  addEventListener("beforeprint", () => {
    folded = [...document.querySelectorAll("main details:not([open])")];
    folded.forEach(one => { one.open = true; });
  });
  addEventListener("afterprint", () => folded.forEach(one => { one.open = false; }));

  // The contents say where one is; on a small window they begin folded.
  const contents = document.querySelector("nav details");
  if (contents && !matchMedia("(min-width: 84rem)").matches) contents.open = false;
  const links = new Map([...document.querySelectorAll("nav a")].map(a => [a.hash.slice(1), a]));
  if (links.size && "IntersectionObserver" in window) {
    const seen = new IntersectionObserver(entries => entries.forEach(entry => {
      if (!entry.isIntersecting) return;
      links.forEach(a => a.removeAttribute("aria-current"));
      const link = links.get(entry.target.id);
      if (link) link.setAttribute("aria-current", "true");
    }), { rootMargin: "0px 0px -70% 0px" });
    document.querySelectorAll("main > section").forEach(one => seen.observe(one));
  }
})();
