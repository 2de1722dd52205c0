// Shows moments in the viewer's zone; UTC stays in the tooltip.

const FORMAT = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
const ZONE = FORMAT.resolvedOptions().timeZone;

export function localise(root) {
  for (const element of root.querySelectorAll("time[datetime]")) {
    const moment = new Date(element.dateTime);
    if (Number.isNaN(moment.getTime()) || element.title) continue;
    element.title = element.textContent;
    element.textContent = FORMAT.format(moment);
  }
  const zone = document.getElementById("zone");
  if (zone && ZONE !== "UTC") zone.textContent = `Times are in ${ZONE}; UTC is in the tooltip.`;
}
