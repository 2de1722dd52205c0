import javax.jms.Connection;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Session;
import javax.jms.TextMessage;

import org.apache.activemq.ActiveMQConnectionFactory;

/**
 * Sends texts of 1,000 characters, or receives them: "send URL QUEUE COUNT" or "receive URL QUEUE COUNT".
 *
 * A receiver prints the number of each message; both print a line "ready" first and "done MILLISECONDS" last.
 */
public class Exchange {
    private static final int LENGTH = 1000;
    private static final long PATIENCE_MS = 30_000;

    public static void main(String[] arguments) {
        try {
            run(arguments);
            System.exit(0);
        } catch (Exception failure) {
            failure.printStackTrace();
            System.exit(1);
        }
    }

    private static void run(String[] arguments) throws Exception {
        int count = Integer.parseInt(arguments[3]);
        Connection connection = new ActiveMQConnectionFactory(arguments[1]).createConnection();
        connection.start();
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        if (arguments[0].equals("send")) {
            MessageProducer producer = session.createProducer(session.createQueue(arguments[2]));
            System.out.println("ready");
            long started = System.nanoTime();
            for (int number = 0; number < count; number++) {
                StringBuilder text = new StringBuilder("Message: " + number + " sent at: " + new java.util.Date());
                while (text.length() < LENGTH) {
                    text.append(' ');
                }
                producer.send(session.createTextMessage(text.toString()));
            }
            System.out.println("done " + (System.nanoTime() - started) / 1_000_000);
        } else {
            MessageConsumer consumer = session.createConsumer(session.createQueue(arguments[2]));
            System.out.println("ready");
            long started = 0;
            for (int number = 0; number < count; number++) {
                TextMessage message = (TextMessage) consumer.receive(PATIENCE_MS);
                if (message == null) {
                    break;
                }
                started = started == 0 ? System.nanoTime() : started;
                System.out.println(message.getText().split(" ")[1]);
            }
            System.out.println("done " + (System.nanoTime() - started) / 1_000_000);
        }
        connection.close();
    }
}
