import java.util.ArrayList;
import java.util.List;
import javax.jms.Connection;
import javax.jms.Destination;
import javax.jms.JMSException;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Session;
import javax.jms.TextMessage;
import org.apache.activemq.ActiveMQConnection;
import org.apache.activemq.ActiveMQConnectionFactory;

/** Connections to one broker; whatever a scenario leaves open is closed with them. */
final class Clients implements AutoCloseable {
    /** Long enough for a message that comes, on a slow machine too; nobody waits that long for one that does not. */
    static final long PATIENCE_MS = 40_000;
    /** How long to look for a message that should not come. */
    static final long SILENCE_MS = 150;

    /** A text that no scenario sends but to say that nothing follows. */
    static final String LAST = "nothing follows";

    private static final String DEAD_LETTERS = "ActiveMQ.DLQ";
    private static final String MARK = "scenario";

    final String uri;
    private final List<Connection> connections = new ArrayList<>();

    Clients(String uri) {
        this.uri = uri;
    }

    /** A started connection; options are those of the address, such as {@code jms.prefetchPolicy.all=1}. */
    ActiveMQConnection connect(String... options) throws JMSException {
        ActiveMQConnection connection = open(options);
        connection.start();
        return connection;
    }

    ActiveMQConnection open(String... options) throws JMSException {
        return openAt(options.length == 0 ? uri : uri + "?" + String.join("&", options));
    }

    synchronized ActiveMQConnection openAt(String address) throws JMSException {
        ActiveMQConnectionFactory factory = new ActiveMQConnectionFactory(address);
        factory.setTrustAllPackages(true);
        ActiveMQConnection connection = (ActiveMQConnection) factory.createConnection();
        connections.add(connection);
        return connection;
    }

    static Session session(Connection connection) throws JMSException {
        return connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
    }

    static void send(Session session, Destination destination, String... texts) throws JMSException {
        MessageProducer producer = session.createProducer(destination);
        for (String text : texts) {
            producer.send(session.createTextMessage(text));
        }
        producer.close();
    }

    /** Marked as those of one scenario, so that it can tell its own dead letters from those of any other. */
    static void sendMarked(Session session, Destination destination, String mark, String... texts)
            throws JMSException {
        MessageProducer producer = session.createProducer(destination);
        for (String text : texts) {
            producer.send(marked(session, mark, text));
        }
        producer.close();
    }

    static TextMessage marked(Session session, String mark, String text) throws JMSException {
        TextMessage message = session.createTextMessage(text);
        message.setStringProperty(MARK, mark);
        return message;
    }

    /** Sees the dead letters of the messages that carry this mark. */
    static MessageConsumer deadLetters(Session session, String mark) throws JMSException {
        return session.createConsumer(session.createQueue(DEAD_LETTERS), MARK + " = '" + mark + "'");
    }

    /** The dead letters that are there still; a last letter, sent behind them, tells when all have been seen. */
    static List<String> moreDeadLetters(Session session, MessageConsumer dead, String mark) throws JMSException {
        sendMarked(session, session.createQueue(DEAD_LETTERS), mark, LAST);
        return receiveUntilLast(dead);
    }

    /** All texts up to the one that says that nothing follows; null is among them if that one never comes. */
    static List<String> receiveUntilLast(MessageConsumer consumer) throws JMSException {
        List<String> texts = new ArrayList<>();
        for (String text = receive(consumer, PATIENCE_MS); !LAST.equals(text); text = receive(consumer, PATIENCE_MS)) {
            texts.add(text);
            if (text == null) {
                break;
            }
        }
        return texts;
    }

    static void sendNumbered(Session session, Destination destination, int count) throws JMSException {
        MessageProducer producer = session.createProducer(destination);
        for (int i = 1; i <= count; i++) {
            TextMessage message = session.createTextMessage("m" + i);
            message.setIntProperty("number", i);
            producer.send(message);
        }
        producer.close();
    }

    /** The text of the next message; null where none comes. */
    static String receive(MessageConsumer consumer, long timeoutMs) throws JMSException {
        return text(consumer.receive(timeoutMs));
    }

    static String text(Message message) throws JMSException {
        return message == null ? null : ((TextMessage) message).getText();
    }

    /** As many messages as are expected, and whether more came than that. */
    static List<String> receiveAll(MessageConsumer consumer, int expected) throws JMSException {
        List<String> texts = new ArrayList<>();
        while (texts.size() < expected) {
            String text = receive(consumer, PATIENCE_MS);
            texts.add(text);
            if (text == null) {
                return texts;
            }
        }
        String more = receive(consumer, SILENCE_MS);
        if (more != null) {
            texts.add("unexpected: " + more);
        }
        return texts;
    }

    @Override
    public void close() {
        for (Connection connection : connections) {
            try {
                connection.close();
            } catch (JMSException | RuntimeException ignored) {
                // A scenario about broken connections leaves them broken.
            }
        }
    }
}
