// Lights up what belongs together in a drawing: the numbers from a box's data-node to its data-last are its subtree.

const SMALLEST = 0.75; // scale at which a picture can still be read

// Makes a picture as small as its place asks for; gives the scale where it is too wide all the same, else null.
export function fit(picture) {
  const { width, height } = picture.viewBox.baseVal, room = picture.parentElement.clientWidth;
  const scale = Math.min(1, Math.max(SMALLEST, room / width));
  picture.setAttribute("width", width * scale);
  picture.setAttribute("height", height * scale);
  return width * scale > room + 1 ? scale : null;
}

let listening = new AbortController();

// Whatever is in the figure; an earlier drawing in it is forgotten.
export function lightUp(figure, caption, legend) {
  caption.replaceChildren(...legend);
  caption.classList.remove("lit");
  figure.classList.remove("lighting");
  listening.abort();
  listening = new AbortController();
  const { signal } = listening;
  const nodes = new Map([...figure.querySelectorAll(".node")].map((node) => [Number(node.dataset.node), node]));
  const parts = [...figure.querySelectorAll("[data-node]")];
  let chosen = null;

  function show(number) {
    if (number === chosen) return;
    chosen = number;
    const node = nodes.get(number);
    const last = node ? Number(node.dataset.last) : -1;
    figure.classList.toggle("lighting", Boolean(node));
    for (const part of parts) {
      const at = Number(part.dataset.node);
      part.classList.toggle("lit", Boolean(node) && at >= number && at <= last);
      part.classList.toggle("own", Boolean(node) && at === number);
    }
    caption.replaceChildren(...(node ? [node.getAttribute("aria-label")] : legend));
    caption.classList.toggle("lit", Boolean(node));
  }

  const numberOf = (target) => {
    const part = target.closest?.("[data-node]");
    return part ? Number(part.dataset.node) : null;
  };
  figure.addEventListener("pointerover", (event) => show(numberOf(event.target)), { signal });
  figure.addEventListener("pointerleave", () => show(numberOf(document.activeElement)), { signal });
  figure.addEventListener("focusin", (event) => show(numberOf(event.target)), { signal });
  figure.addEventListener("focusout", () => show(null), { signal });
}
