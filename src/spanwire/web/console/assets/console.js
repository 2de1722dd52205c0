import { follow } from "./live.js";
import { localise } from "./times.js";

localise(document);
follow();
