import javax.jms.Connection;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.Session;
import org.apache.activemq.ActiveMQConnectionFactory;

/** Takes so many messages from a queue, acknowledges each batch at its end, and prints the seconds from the first to the last. */
public final class JmsDrain {
    private static final long WAIT_MS = 60_000;
    private static final double NANOS = 1e9;

    public static void main(String[] arguments) throws Exception {
        int count = Integer.parseInt(arguments[2]);
        int batch = Integer.parseInt(arguments[3]);
        Connection connection = new ActiveMQConnectionFactory(arguments[0]).createConnection();
        Session session = connection.createSession(false, Session.CLIENT_ACKNOWLEDGE);
        MessageConsumer consumer = session.createConsumer(session.createQueue(arguments[1]));
        long began = System.nanoTime();
        connection.start();
        for (int done = 1; done <= count; done++) {
            Message message = consumer.receive(WAIT_MS);
            if (message == null) {
                System.err.println("got " + (done - 1) + " of " + count);
                System.exit(1); // an exception would leave the threads of the connection, and so the process
            }
            message.getStringProperty("symbol");
            if (done % batch == 0 || done == count) {
                message.acknowledge();
            }
        }
        System.out.println((System.nanoTime() - began) / NANOS);
        connection.close();
    }
}
