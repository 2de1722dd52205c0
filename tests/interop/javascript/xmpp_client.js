// node xmpp_client.js MODULES SERVICE USER PASSWORD: a conversation with a broker by @xmpp/client, told as lines of JSON.
"use strict";
const path = require("node:path");
const { createRequire } = require("node:module");

const [modules, service, username, password] = process.argv.slice(2);
const load = createRequire(path.join(modules, "package.json"));
const tell = (...event) => console.log(JSON.stringify(event));

const MUC = "http://jabber.org/protocol/muc";
const bodyOf = (stanza) => stanza.getChildText("body");

(async () => {
  const { client, xml } = await import(load.resolve("@xmpp/client").replace(/^/, "file://"));
  const xmpp = client({ service, domain: "localhost", username, password, resource: "node" });
  xmpp.reconnect.stop();
  xmpp.on("error", (error) => tell("error", error.condition || error.message));
  const waiting = [];
  const heard = [];
  const next = () => (heard.length ? Promise.resolve(heard.shift()) : new Promise((resolve) => waiting.push(resolve)));
  xmpp.on("stanza", (stanza) => {
    if (!stanza.is("message") || (stanza.getChild("subject") && !stanza.getChild("body"))) return;
    if (waiting.length) waiting.shift()(stanza);
    else heard.push(stanza);
  });
  let jid;
  try {
    jid = await xmpp.start();
  } catch (error) {
    tell("refused", error.condition || error.message);
    await xmpp.stop();
    return;
  }
  tell("online", jid.bare().toString());
  const { iqCaller } = xmpp;
  await iqCaller.request(xml("iq", { type: "get" }, xml("ping", "urn:xmpp:ping")));
  tell("pong");
  await xmpp.send(xml("presence"));
  const receipt = xml("request", { xmlns: "urn:xmpp:receipts" });
  await xmpp.send(xml("message", { to: "orders@localhost", type: "chat", id: "m1" }, xml("body", {}, "Köln ☂ & <so>"), receipt));
  const stored = await next();
  tell("stored", stored.getChild("received").attrs.id);
  await xmpp.send(xml("presence", { to: "prices@conference.localhost/node" }, xml("x", { xmlns: MUC })));
  await xmpp.send(xml("message", { to: "prices@conference.localhost", type: "groupchat", id: "g1" }, xml("body", {}, "42")));
  const echo = await next();
  tell("room", echo.attrs.from, bodyOf(echo));
  tell("ready");
  for (let count = 0; count < 2; count += 1) {
    const stanza = await next();
    tell(stanza.attrs.type, stanza.attrs.from.split("/")[0], bodyOf(stanza));
  }
  await xmpp.send(xml("message", { to: "secret@localhost", type: "chat", id: "m2" }, xml("body", {}, "not allowed")));
  const refusal = await next();
  tell(refusal.attrs.type, refusal.getChild("error").children[0].name);
  await xmpp.stop();
  tell("done");
})();
