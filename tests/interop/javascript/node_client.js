// node node_client.js STOMPJS WS URL QUEUE: the conversation with one line of JSON for each thing that happens.
const [stompJs, ws, url, queue] = process.argv.slice(2);
const { WebSocket } = require(ws);
const { converse } = require("./conversation.js");
const StompJs = require(stompJs);
const names = StompJs.Versions.default.protocolVersions();
const options = { webSocketFactory: () => new WebSocket(url, names) };
converse(StompJs, options, queue, event => {
  process.stdout.write(JSON.stringify(event) + "\n");
  if (event[0] === "closed" || event[0] === "error") {
    setTimeout(() => process.exit(0), 200);
  }
});
