"use strict";
(() => {
  const root = document.documentElement;
  root.classList.add("js");

  // Filter by label pair: two selections, or a click on a number of the matrix.
  const form = document.getElementById("filter");
  if (form) {
    const [sideA, sideB] = form.querySelectorAll("select");
    const groups = [...document.querySelectorAll(".group")];
    const rests = [...document.querySelectorAll(".rest-groups")];
    const output = form.querySelector("output");
    const apply = () => {
      let shown = 0, pictures = 0;
      for (const group of groups) {
        const { a, b, count } = group.dataset;
        group.hidden = (sideA.value !== "" && sideA.value !== a) || (sideB.value !== "" && sideB.value !== b);
        if (!group.hidden) { shown += 1; pictures += Number(count); }
      }
      const filtered = sideA.value !== "" || sideB.value !== "";
      for (const part of document.querySelectorAll(".rest-groups, .verdict-part")) {
        if (filtered && part.matches(".rest-groups")) part.open = true;
        part.hidden = !part.querySelector(".group:not([hidden])");
      }
      output.textContent = !filtered ? "" : shown === 0 ? "no such pictures here"
        : `${shown} ${shown === 1 ? "behaviour" : "behaviours"}, ${pictures.toLocaleString("en")} pictures`;
    };
    form.addEventListener("change", apply);
    form.addEventListener("reset", () => setTimeout(apply));
    form.addEventListener("submit", (event) => event.preventDefault());
    for (const link of document.querySelectorAll(".heat a[data-pair], .pairs-of a[data-pair]")) {
      link.addEventListener("click", (event) => {
        event.preventDefault();
        [sideA.value, sideB.value] = link.dataset.pair.split("-");
        apply();
        document.getElementById("gallery").scrollIntoView();
        sideA.focus({ preventScroll: true });
      });
    }
    // A link from the strip below the headline must find its group even if it is filtered away or folded.
    for (const link of document.querySelectorAll(".glance a")) {
      link.addEventListener("click", () => {
        form.reset();
        for (const rest of rests) if (rest.querySelector(link.hash)) rest.open = true;
      });
    }
  }

  // Search a list of label pairs: every word has to be in one of the two names.
  for (const form of document.querySelectorAll(".find")) {
    const field = form.querySelector("input"), output = form.querySelector("output");
    const rows = [...document.querySelectorAll(`#${field.getAttribute("aria-controls")} tbody tr`)];
    const texts = rows.map((row) => `${row.cells[0].textContent} ${row.cells[1].textContent}`.toLowerCase());
    field.addEventListener("input", () => {
      const words = field.value.toLowerCase().split(/\s+/);
      let found = 0;
      rows.forEach((row, index) => {
        row.hidden = !words.every((word) => texts[index].includes(word));
        if (!row.hidden) found += 1;
      });
      output.textContent = field.value.trim() === "" ? "" : `${found} of ${rows.length} pairs`;
    });
    form.addEventListener("submit", (event) => event.preventDefault());
  }

  // Enlarge a picture; the arrow keys go through the pictures of the same part of the page.
  const viewer = document.getElementById("viewer");
  if (typeof viewer.showModal !== "function") return;
  const content = document.getElementById("viewer-content");
  const place = document.getElementById("viewer-place");
  let pictures = [], current = 0;
  const show = (index) => {
    current = (index + pictures.length) % pictures.length;
    const details = pictures[current];
    const box = document.createElement("div");
    box.className = "viewer-pic";
    const thumb = document.createElement("div");
    thumb.className = "thumb";
    for (const node of details.querySelector("summary").children) thumb.append(node.cloneNode(true));
    const more = details.querySelector(".more").cloneNode(true);
    const nearest = more.querySelector(".nearest");
    if (nearest) thumb.append(nearest);
    box.append(thumb, more);
    content.replaceChildren(box);
    place.textContent = `${current + 1} of ${pictures.length}`;
  };
  for (const details of document.querySelectorAll("details.pic")) {
    details.querySelector("summary").addEventListener("click", (event) => {
      event.preventDefault();
      pictures = [...details.closest("section").querySelectorAll("details.pic")]
        .filter((other) => !other.closest("[hidden]") && other.closest("details:not([open]):not(.pic)") === null);
      viewer.showModal();
      show(pictures.indexOf(details));
    });
  }
  document.getElementById("viewer-previous").addEventListener("click", () => show(current - 1));
  document.getElementById("viewer-next").addEventListener("click", () => show(current + 1));
  document.getElementById("viewer-close").addEventListener("click", () => viewer.close());
  viewer.addEventListener("keydown", (event) => {
    if (event.key === "ArrowLeft") show(current - 1);
    if (event.key === "ArrowRight") show(current + 1);
  });
  viewer.addEventListener("click", (event) => { if (event.target === viewer) viewer.close(); });
})();
