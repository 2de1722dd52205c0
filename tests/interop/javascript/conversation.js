// A conversation of STOMP.js with a broker, under node and in a browser. `converse` tells each thing that happens to
// `tell`, as [name, detail], and ends with ["done"]. The caller says how a WebSocket is opened.
function converse(StompJs, options, queue, tell) {
  const binary = new Uint8Array([0, 255, 10, 0, 200]);
  const client = new StompJs.Client({
    ...options,
    reconnectDelay: 0,
    heartbeatIncoming: 500,
    heartbeatOutgoing: 500,
    onStompError: frame => tell(["error", frame.headers.message]),
    onWebSocketClose: event => tell(["closed", event.code]),
    onDisconnect: () => tell(["done"]),
    onConnect: frame => {
      tell(["connected", client.connectedVersion]);
      tell(["heart-beat", frame.headers["heart-beat"]]);
      let left = 3;
      client.subscribe(queue, message => {
        const isBinary = message.headers.kind === "binary";
        tell(["message", isBinary ? Array.from(message.binaryBody) : message.body]);
        message.ack();
        left -= 1;
        if (left === 0) {
          setTimeout(() => client.deactivate(), 2000); // long enough for heart-beats that would be missed
        }
      }, { ack: "client-individual" });
      client.watchForReceipt("r1", () => tell(["receipt", "r1"]));
      client.publish({ destination: queue, body: "Köln ☂", headers: { persistent: "true", receipt: "r1" } });
      client.publish({ destination: queue, binaryBody: binary, headers: { kind: "binary" } });
      const transaction = client.begin();
      client.publish({ destination: queue, body: "x".repeat(200000), headers: { transaction: transaction.id } });
      transaction.commit();
    },
  });
  client.activate();
}
if (typeof module !== "undefined") {
  module.exports = { converse };
}
