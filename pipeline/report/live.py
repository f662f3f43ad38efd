"""The script that makes the page's drawings live.

Each is drawn again as wide as it is shown, so that it answers to a pointer. If anything is in the way of that, the
drawings that are there already stay. `data-drawn` of the document says that all of them are.
"""

LIVE = """
const TOLD = { disableDefaultStyle: true, theme: "told" };

async function draw(figure) {
  const spec = JSON.parse(figure.querySelector("script").textContent);
  const width = figure.clientWidth - Number(figure.dataset.beside);
  for (const view of spec.vconcat ?? [spec]) view.width = width;
  const place = document.createElement("div");
  await vegaEmbed(place, spec, { actions: false, renderer: "svg", tooltip: TOLD });
  figure.querySelector(".drawn").replaceChildren(place);
  figure.classList.add("live");
}

// One after the other: each as wide as the page is by then.
async function drawAll() {
  for (const figure of document.querySelectorAll(".plot")) await draw(figure);
  document.documentElement.dataset.drawn = innerWidth;
}

// Squares of the maps say what they are at once, also where nothing but a finger points.
const told = document.createElement("div");
told.className = "told";
document.body.append(told);
for (const title of document.querySelectorAll(".heat rect title")) {
  title.parentNode.dataset.says = title.textContent;
  title.remove();
}
addEventListener("pointerover", ({ target, clientX, clientY }) => {
  told.textContent = target.dataset?.says ?? "";
  told.classList.toggle("visible", told.textContent !== "");
  told.style.left = `${Math.max(Math.min(clientX + 10, innerWidth - told.offsetWidth - 4), 0)}px`;
  told.style.top = `${clientY + 16}px`;
});

let waiting;
addEventListener("resize", () => {
  clearTimeout(waiting);
  // A phone changes its height whenever its address bar comes or goes.
  if (innerWidth === Number(document.documentElement.dataset.drawn)) return;
  waiting = setTimeout(drawAll, 200);
});
await drawAll();
"""
