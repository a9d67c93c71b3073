// Filter by "these against those": all of these say one thing, and none of those says it.
(() => {
  const form = document.getElementById("sides");
  if (!form) return;
  const STATES = ["", "these", "those"];
  const buttons = [...form.querySelectorAll("button[data-role]")];
  const groups = [...document.querySelectorAll(".group")];
  const output = form.querySelector("output");
  const set = (button, state) => {
    button.dataset.state = state;
    button.setAttribute("aria-pressed", String(state !== ""));
    button.querySelector("span").textContent = state || "either";
  };
  const among = (state) => buttons.flatMap((button, index) => (button.dataset.state === state ? [index] : []));
  const apply = () => {
    const these = among("these"), those = among("those");
    let shown = 0, pictures = 0;
    for (const group of groups) {
      const said = group.dataset.labels.split("-");
      const one = these.map((index) => said[index]), other = those.map((index) => said[index]);
      const fits = one.every((label) => label === one[0])
        && (one.length ? !other.includes(one[0]) : other.every((label) => label === other[0]));
      group.hidden = !fits;
      if (fits) { shown += 1; pictures += Number(group.dataset.count); }
    }
    const filtered = these.length + those.length > 0;
    for (const part of document.querySelectorAll(".rest-groups, .verdict-part")) {
      if (filtered && part.matches(".rest-groups")) part.open = true;
      part.hidden = !part.querySelector(".group:not([hidden])");
    }
    output.textContent = !filtered ? "" : shown === 0 ? "no such pictures here"
      : `${shown} ${shown === 1 ? "behaviour" : "behaviours"}, ${pictures.toLocaleString("en")} pictures`;
  };
  for (const button of buttons) {
    button.addEventListener("click", () => {
      set(button, STATES[(STATES.indexOf(button.dataset.state) + 1) % STATES.length]);
      apply();
    });
  }
  const clear = () => { buttons.forEach((button) => set(button, "")); apply(); };
  form.addEventListener("reset", () => setTimeout(clear));
  form.addEventListener("submit", (event) => event.preventDefault());
  for (const link of document.querySelectorAll("a[data-these]")) {
    link.addEventListener("click", (event) => {
      event.preventDefault();
      for (const button of buttons) {
        set(button, link.dataset.these === button.dataset.role ? "these"
          : link.dataset.those === button.dataset.role ? "those" : "");
      }
      apply();
      document.getElementById("gallery").scrollIntoView();
    });
  }
  for (const link of document.querySelectorAll(".glance a")) {
    link.addEventListener("click", () => {
      clear();
      for (const rest of document.querySelectorAll(".rest-groups")) if (rest.querySelector(link.hash)) rest.open = true;
    });
  }
})();
