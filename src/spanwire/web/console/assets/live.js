// Keeps a page up to date: after a change on the event stream the page is loaded again, and its live regions replaced.
// The server has drawn them, so nothing here makes markup. A loaded document runs no scripts.

import { localise } from "./times.js";

const LEAST_MS = 2_000; // between two loads
const CHART_MS = 10_000; // after which charts move on without a change
const RETRY_MS = 10_000; // until a stream that has ended for good is opened again

const main = document.getElementById("content");
const shown = document.getElementById("live");
let timer = 0;
let loadedAt = Date.now();
let isStopped = false;
let isFirst = true;

function tell(text) {
  if (shown) shown.textContent = text;
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
    }
  };
  request.send();
}

function isInUse(region) {
  const focused = document.activeElement;
  const isTyping = region.contains(focused) && focused.matches("input, select, textarea");
  return isTyping || region.querySelector("input:checked") !== null;
}

function replace(fresh) {
  for (const region of document.querySelectorAll("[data-live]")) {
    const other = fresh.getElementById(region.id);
    if (!other || isInUse(region)) continue;
    const next = document.importNode(other, true);
    const focused = region.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
    const opened = [...region.querySelectorAll("details")].map((one) => one.open);
    const places = [...region.querySelectorAll(".scroll")].map((one) => one.scrollLeft);
    localise(next);
    region.replaceWith(next);
    next.querySelectorAll("details").forEach((one, index) => { one.open = opened[index] ?? false; });
    next.querySelectorAll(".scroll").forEach((one, index) => { one.scrollLeft = places[index] ?? 0; });
    if (focused !== null) [...next.querySelectorAll("a")].find((one) => one.getAttribute("href") === focused)?.focus();
  }
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
    tell("The page follows changes.");
    if (!isFirst) schedule();
    isFirst = false;
  });
  for (const view of views) source.addEventListener(view, () => schedule());
  source.addEventListener("unreachable", () => tell("The broker does not answer."));
  source.addEventListener("error", () => {
    tell("The page does not follow changes.");
    if (source.readyState !== EventSource.CLOSED) return; // the browser connects again
    schedule(LEAST_MS); // the load finds out if the session has ended
    setTimeout(() => { if (!isStopped) connect(query, views); }, RETRY_MS);
  });
}
