import { localise } from "./times.js";

localise(document);
