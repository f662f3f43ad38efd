// Makes the page's drawings live: each is drawn again as wide as it is shown, so that it answers to a pointer. If
// anything is in the way of that, the drawings that are there already stay. `data-drawn` of the document says that all
// of them are.
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

let waiting;
addEventListener("resize", () => {
  clearTimeout(waiting);
  // A phone changes its height whenever its address bar comes or goes.
  if (innerWidth === Number(document.documentElement.dataset.drawn)) return;
  waiting = setTimeout(drawAll, 200);
});
await drawAll();
