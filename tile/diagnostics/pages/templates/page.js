"use strict";
// Choosing a fault outlines its cells in the pictures of its section.
for (const section of document.querySelectorAll("section.fault")) {
  const buttons = section.querySelectorAll("button.choose");
  const choose = (chosen) => {
    for (const cell of section.querySelectorAll("rect.chosen")) cell.classList.remove("chosen");
    for (const button of buttons) button.setAttribute("aria-pressed", String(button === chosen));
    for (const key of chosen ? chosen.dataset.cells.split(" ") : []) {
      const cell = key && document.getElementById(key);
      if (!cell) continue;
      cell.classList.add("chosen");
      cell.parentNode.append(cell); // what is drawn last is on top
    }
  };
  for (const button of buttons) {
    button.addEventListener("click", () => {
      const again = button.getAttribute("aria-pressed") === "true";
      choose(again ? null : button);
      const picture = section.querySelector(".drawings");
      if (!again && picture) picture.scrollIntoView({ block: "nearest", behavior: "auto" });
    });
  }
}
