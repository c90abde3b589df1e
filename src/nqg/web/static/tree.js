// Lights up what belongs together in a drawing: the numbers from a box's data-node to its data-last are its subtree.

export function lightUp(figure, caption) {
  const hint = "Point at a box, or move to it with Tab: its words, its rule and its part of the program light up. ① ② are the parts below it.";
  caption.textContent = hint;
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
    caption.textContent = node ? node.dataset.rule.replace(" ### ", " → ") : hint;
    caption.classList.toggle("lit", Boolean(node));
  }

  const numberOf = (target) => {
    const part = target.closest?.("[data-node]");
    return part ? Number(part.dataset.node) : null;
  };
  figure.addEventListener("pointerover", (event) => show(numberOf(event.target)));
  figure.addEventListener("pointerleave", () => show(numberOf(document.activeElement)));
  figure.addEventListener("focusin", (event) => show(numberOf(event.target)));
  figure.addEventListener("focusout", () => show(null));
}
