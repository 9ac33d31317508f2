// Filters of the gallery: buttons leave some samples and say how many; one model at a time.
// Without it all samples are there, the first model open and the others folded below it.
(() => {
  "use strict";
  const ON_PAPER = 12;

  document.querySelectorAll("[data-gallery]").forEach(gallery => {
    const controls = gallery.querySelector(".g-controls"), about = gallery.querySelector(".g-about");
    const samples = [...gallery.querySelectorAll(".g-sample")], domains = [...gallery.querySelectorAll(".g-domain")];
    const buttons = [...controls.querySelectorAll("button[data-choose]")];
    const chosen = { model: "0", tag: "", domain: "", label: "" };

    const tags = sample => (sample.getAttribute(`data-tags-${chosen.model}`) || "").split(" ");
    const fits = (sample, asked) =>
      (!asked.tag || tags(sample).includes(asked.tag)) &&
      (!asked.domain || sample.dataset.domain === asked.domain) &&
      (!asked.label || sample.dataset.label === asked.label);

    const showModel = () => gallery.querySelectorAll("[data-model]").forEach(part => {
      part.hidden = part.dataset.model !== chosen.model;
      if (part.tagName === "DETAILS") part.open = true;
    });

    const show = () => {
      samples.forEach(sample => { sample.hidden = !fits(sample, chosen); });
      // on paper are the first of those that are left, of every domain as many
      const left = domains.map(domain => [...domain.querySelectorAll(".g-sample:not([hidden])")]).filter(some => some.length);
      left.forEach(some => some.forEach((sample, place) => {
        sample.classList.toggle("g-screen", place >= Math.max(1, Math.floor(ON_PAPER / left.length)));
      }));
      domains.forEach(domain => { domain.hidden = !domain.querySelector(".g-sample:not([hidden])"); });
      buttons.forEach(button => {
        const { choose, value } = button.dataset;
        button.setAttribute("aria-pressed", String(chosen[choose] === value));
        const count = button.querySelector("small");
        if (!count || choose === "model") return;
        // how many there would be, whatever else is chosen
        const left = samples.filter(sample => fits(sample, { ...chosen, [choose]: value })).length;
        count.textContent = String(left);
        button.disabled = !left && chosen[choose] !== value;
      });
      const count = samples.filter(sample => !sample.hidden).length;
      const pressed = buttons.find(button => button.dataset.choose === "tag" && button.dataset.value === chosen.tag);
      about.textContent = `${count} of ${samples.length} samples. ${(pressed && pressed.dataset.about) || ""}`;
    };

    buttons.forEach(button => button.addEventListener("click", () => {
      const { choose, value } = button.dataset;
      // a second press takes a filter back
      chosen[choose] = chosen[choose] === value && choose !== "model" ? "" : value;
      if (choose === "model") showModel();
      show();
    }));

    controls.hidden = false;
    gallery.classList.add("g-switched");
    showModel();
    show();
  });
})();
