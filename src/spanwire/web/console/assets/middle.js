// A map that is wider than its window shows the broker that it is about in the middle, until somebody scrolls.

const centred = new WeakMap(); // box of a map -> how far it was scrolled for its broker

export function centre(region) {
  for (const place of region.querySelectorAll(".map [data-middle]")) {
    const box = place.closest(".scroll");
    const inside = box.getBoundingClientRect();
    const at = place.getBoundingClientRect();
    box.scrollLeft += at.left + at.width / 2 - inside.left - inside.width / 2;
    centred.set(box, box.scrollLeft);
  }
}

export function isCentred(box) {
  return centred.get(box) === box.scrollLeft;
}
