import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.TreeMap;
import javax.jms.Connection;
import javax.jms.DeliveryMode;
import javax.jms.Destination;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Session;
import org.apache.activemq.command.ActiveMQDestination;

/** Does a message arrive as it was sent? */
final class RoundTrip {
    private static final int FIRST_BLOB_VERSION = 3;
    private static final long HOUR_MS = 3_600_000;

    /** One wire format: every message over a queue and a topic, sent and received by the same client. */
    static void everyMessage(Clients clients, String[] arguments, Observer observer) throws Exception {
        for (String destination : List.of("queue", "topic")) {
            for (String wireFormat : arguments) {
                Connection connection = clients.connect(options(wireFormat));
                Destination target = destination(destination + "://ROUND." + destination);
                int mode = destination.equals("queue") ? DeliveryMode.PERSISTENT : DeliveryMode.NON_PERSISTENT;
                int version = version(wireFormat);
                see(observer, wireFormat, destination, exchange(connection, connection, target, mode, version));
                connection.close();
            }
        }
    }

    /** Pairs of wire formats, sender|receiver. */
    static void acrossVersions(Clients clients, String[] arguments, Observer observer) throws Exception {
        for (String pair : arguments) {
            String[] both = pair.split("\\|");
            Connection sender = clients.connect(options(both[0]));
            Connection receiver = clients.connect(options(both[1]));
            int version = Math.min(version(both[0]), version(both[1]));
            Destination target = destination("queue://ROUND.ACROSS");
            int mode = DeliveryMode.NON_PERSISTENT;
            see(observer, pair, "queue", exchange(sender, receiver, target, mode, version));
            sender.close();
            receiver.close();
        }
    }

    /** Every message to a destination, for another kind of client to read. */
    static void send(Clients clients, String[] arguments, Observer observer) throws Exception {
        Connection connection = clients.connect();
        Session session = Clients.session(connection);
        MessageProducer producer = session.createProducer(destination(arguments[0]));
        for (Message message : Messages.all(session, false)) {
            producer.send(message);
            observer.see("kind", message.getStringProperty("kind"));
        }
    }

    /** What a JMS client sees of a number of messages of another kind of client. */
    static void receive(Clients clients, String[] arguments, Observer observer) throws Exception {
        Connection connection = clients.connect();
        MessageConsumer consumer = Clients.session(connection).createConsumer(destination(arguments[0]));
        for (int i = Integer.parseInt(arguments[1]); i > 0; i--) {
            Message message = consumer.receive(Clients.PATIENCE_MS);
            if (message == null) {
                observer.see("missing", i);
                return;
            }
            observer.see("message", Messages.describe(message));
        }
    }

    static ActiveMQDestination destination(String name) {
        return ActiveMQDestination.createDestination(name, ActiveMQDestination.QUEUE_TYPE);
    }

    private static void see(Observer observer, String wireFormat, String destination, List<Object> differences) {
        Object count = differences.remove(0);
        observer.see("format", wireFormat, "over", destination, "messages", count, "differences", differences);
    }

    /** The number of messages that arrived, then what was different. */
    private static List<Object> exchange(
            Connection sender, Connection receiver, Destination target, int mode, int version) throws Exception {
        Session session = Clients.session(sender);
        MessageConsumer consumer = Clients.session(receiver).createConsumer(target);
        MessageProducer producer = session.createProducer(target);
        List<Message> sent = Messages.all(session, version >= FIRST_BLOB_VERSION);
        for (int i = 0; i < sent.size(); i++) {
            producer.send(sent.get(i), mode, i % 10, i % 2 == 0 ? 0 : HOUR_MS);
        }
        List<Object> seen = new ArrayList<>(List.of(0));
        for (Message message : sent) {
            Message received = consumer.receive(Clients.PATIENCE_MS);
            String kind = message.getStringProperty("kind");
            if (received == null) {
                seen.add(kind + " did not arrive");
                break;
            }
            seen.set(0, (Integer) seen.get(0) + 1);
            seen.addAll(differences(kind, Messages.describeExactly(message), Messages.describeExactly(received)));
            if (received.getJMSRedelivered()) {
                seen.add(kind + " is marked as redelivered");
            }
        }
        if (consumer.receiveNoWait() != null) {
            seen.add("there is one message too many");
        }
        consumer.close();
        session.close();
        return seen;
    }

    private static List<Object> differences(String kind, Map<String, Object> sent, Map<String, Object> received) {
        List<Object> differences = new ArrayList<>();
        for (String part : new TreeMap<>(sent).keySet()) {
            if (!Objects.equals(sent.get(part), received.get(part))) {
                differences.add(kind + "." + part + ": sent " + sent.get(part) + ", received " + received.get(part));
            }
        }
        return differences;
    }

    /** {@code version,tight,cache,compress} as in {@code 12,true,true,false}. */
    private static String[] options(String wireFormat) {
        String[] parts = wireFormat.split(",");
        return new String[] {
            "wireFormat.version=" + parts[0],
            "wireFormat.tightEncodingEnabled=" + parts[1],
            "wireFormat.cacheEnabled=" + parts[2],
            "jms.useCompression=" + parts[3],
        };
    }

    private static int version(String wireFormat) {
        return Integer.parseInt(wireFormat.split(",")[0]);
    }
}
