import javax.jms.BytesMessage;
import javax.jms.Connection;
import javax.jms.DeliveryMode;
import javax.jms.MessageProducer;
import javax.jms.Session;
import org.apache.activemq.ActiveMQConnectionFactory;

/** One JMS producer whose sends are round trips; prints one JSON object. */
public final class JmsSync {
    public static void main(String[] arguments) throws Exception {
        String url = arguments[0];
        String name = arguments[1];
        byte[] body = new byte[Integer.parseInt(arguments[2])];
        long count = Long.parseLong(arguments[3]);
        boolean persistent = arguments[4].equals("1");
        ActiveMQConnectionFactory factory = new ActiveMQConnectionFactory(url);
        factory.setAlwaysSyncSend(true);
        Connection connection = factory.createConnection();
        connection.start();
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        MessageProducer producer = session.createProducer(session.createQueue(name));
        producer.setDeliveryMode(persistent ? DeliveryMode.PERSISTENT : DeliveryMode.NON_PERSISTENT);
        send(session, producer, body, Math.max(1, count / 4)); // the compiler has seen it then
        long start = System.nanoTime();
        send(session, producer, body, count);
        double seconds = (System.nanoTime() - start) / 1e9;
        connection.close();
        System.out.printf(java.util.Locale.ROOT, "{\"per_second\": %.0f, \"sent\": %d}%n", count / seconds, count);
        System.exit(0);
    }

    private static void send(Session session, MessageProducer producer, byte[] body, long count) throws Exception {
        for (long number = 0; number < count; number++) {
            BytesMessage message = session.createBytesMessage();
            message.writeBytes(body);
            producer.send(message);
        }
    }
}
