import { follow } from "./live.js";
import { centre } from "./middle.js";
import { localise } from "./times.js";

localise(document);
document.querySelector(".top nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
centre(document);
follow();
