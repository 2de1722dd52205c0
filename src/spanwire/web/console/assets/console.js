import { follow } from "./live.js";
import { localise } from "./times.js";

localise(document);
document.querySelector(".top nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
for (const place of document.querySelectorAll(".map [data-middle]")) centre(place);
follow();

// A map that is wider than its window begins with the broker that it is about in the middle.
function centre(place) {
  const box = place.closest(".scroll");
  const inside = box.getBoundingClientRect();
  const at = place.getBoundingClientRect();
  box.scrollLeft += at.left + at.width / 2 - inside.left - inside.width / 2;
}
