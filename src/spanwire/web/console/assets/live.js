// Keeps a page up to date: after a change on the event stream the page is loaded again, and its live regions replaced.
// The server has drawn them, so nothing here makes markup. A loaded document runs no scripts.

import { centre, isCentred } from "./middle.js";
import { localise } from "./times.js";

const LEAST_MS = 2_000; // between two loads
const SHARED_MS = 1_000; // for which an answer of the broker is shared: what a page shows may be older than its stream
const CHART_MS = 10_000; // after which charts move on without a change
const RETRY_MS = 10_000; // until a stream that has ended for good is opened again

const main = document.getElementById("content");
const shown = document.getElementById("live");
let timer = 0;
let loadedAt = Date.now();
let isStopped = false;
let pace = 0; // seconds between two readings, where they are far apart

function tell(text) {
  if (shown) shown.textContent = text;
}

function tellAge() {
  tell(pace ? `The page follows changes. Its figures are up to ${pace + 3} seconds old.` : "The page follows changes.");
}

function schedule(delay = 0) {
  if (isStopped || timer || document.hidden) return;
  timer = setTimeout(load, Math.max(delay, loadedAt + LEAST_MS - Date.now(), 0));
}

function load() {
  const request = new XMLHttpRequest();
  request.open("GET", location.href);
  request.responseType = "document";
  request.setRequestHeader("X-Spanwire-Live", "1"); // this is no use of the session
  request.onloadend = () => {
    timer = 0;
    loadedAt = Date.now();
    if (new URL(request.responseURL || location.href).pathname === "/admin/login") {
      isStopped = true;
      tell("The session has ended. Load the page to log in again.");
    } else if (request.status === 200 && request.response) {
      replace(request.response);
      tellAge();
    } else {
      tell(request.status === 404 ? "What the page shows is gone." : "The page cannot be loaded again. It shows how it was.");
    }
  };
  request.send();
}

function localised(element) {
  const copy = document.importNode(element, true);
  localise(copy);
  return copy;
}

function isInUse(region) {
  const focused = document.activeElement;
  const isTyping = region.contains(focused) && focused.matches("input, select, textarea");
  return isTyping || region.querySelector("input:checked") !== null;
}

function replace(fresh) {
  let isWhole = true;
  for (const region of document.querySelectorAll("[data-live]")) {
    const other = fresh.getElementById(region.id);
    if (!other || isInUse(region)) {
      isWhole = false;
      continue;
    }
    const next = localised(other);
    const focused = region.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
    const opened = [...region.querySelectorAll("details")].map((one) => one.open);
    const places = [...region.querySelectorAll(".scroll")].map((one) => (isCentred(one) ? null : one.scrollLeft));
    region.replaceWith(next);
    next.querySelectorAll("details").forEach((one, index) => { one.open = opened[index] ?? false; });
    centre(next);
    next.querySelectorAll(".scroll").forEach((one, index) => { if (places[index] !== null) one.scrollLeft = places[index] ?? 0; });
    if (focused !== null) [...next.querySelectorAll("a")].find((one) => one.getAttribute("href") === focused)?.focus();
  }
  const made = fresh.getElementById("made");
  if (made && isWhole) document.getElementById("made")?.replaceWith(localised(made)); // the age of what is shown
}

export function follow() {
  const views = main.dataset.views;
  if (!views) return;
  const query = new URLSearchParams({ views });
  if (main.dataset.destination) query.set("destination", main.dataset.destination);
  connect(query, views.split(","));
  document.addEventListener("visibilitychange", () => schedule());
  if (main.querySelector(".chart, .map")) setInterval(() => schedule(), CHART_MS);
}

function connect(query, views) {
  const source = new EventSource(`/api/v1/events?${query}`);
  source.addEventListener("open", (event) => {
    if (event.data === undefined) return; // the connection, not the event of that name
    pace = 0;
    tellAge();
    schedule(SHARED_MS);
  });
  for (const view of views) source.addEventListener(view, () => schedule());
  source.addEventListener("pace", (event) => {
    pace = Number(JSON.parse(event.data).seconds);
    tellAge();
  });
  source.addEventListener("unreachable", () => tell("The broker does not answer."));
  source.addEventListener("error", () => {
    tell("The page does not follow changes.");
    if (source.readyState !== EventSource.CLOSED) return; // the browser connects again
    schedule(LEAST_MS); // the load finds out if the session has ended
    setTimeout(() => { if (!isStopped) connect(query, views); }, RETRY_MS);
  });
}
