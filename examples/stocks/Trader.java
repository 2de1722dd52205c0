import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import javax.jms.Connection;
import javax.jms.DeliveryMode;
import javax.jms.JMSException;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Session;
import javax.jms.TextMessage;
import org.apache.activemq.ActiveMQConnection;
import org.apache.activemq.ActiveMQConnectionFactory;

/**
 * The Java client of the demonstration: sends what a file says, or takes the trades of one queue.
 *
 * Speaks to demo.py in lines. A sender prints "answered KEY" and "resending KEY"; its file has lines of queues, key, symbol, date, price
 * and volume, separated by tabs. A receiver prints "held N" and "delivered KEY REDELIVERED PRICE" (fields separated by tabs) and reads
 * "hold", "release" and "finish".
 */
public final class Trader {
    private static volatile boolean hold;
    private static volatile boolean finished;

    public static void main(String[] arguments) throws Exception {
        if (arguments[0].equals("send")) {
            send(arguments[1], arguments[2], Integer.parseInt(arguments[3]));
        } else {
            Thread commands = new Thread(Trader::readCommands);
            commands.setDaemon(true);
            commands.start();
            while (!finished) {
                try {
                    receive(arguments[1], arguments[2]);
                } catch (JMSException broken) {
                    System.out.println("held 0");
                    Thread.sleep(100);
                }
            }
        }
        System.exit(0);
    }

    private static void send(String url, String script, int perSecond) throws Exception {
        List<String> lines = Files.readAllLines(Path.of(script));
        long started = System.nanoTime();
        int next = 0;
        boolean again = false;
        while (next < lines.size()) {
            try {
                Connection connection = new ActiveMQConnectionFactory(url).createConnection();
                connection.start();
                Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
                MessageProducer producer = session.createProducer(null);
                producer.setDeliveryMode(DeliveryMode.PERSISTENT);
                while (next < lines.size()) {
                    long ahead = next * 1_000_000_000L / perSecond - (System.nanoTime() - started);
                    if (ahead > 0) {
                        Thread.sleep(ahead / 1_000_000 + 1);
                    }
                    String[] fields = lines.get(next).split("\t");
                    TextMessage message = session.createTextMessage(fields[4]);
                    message.setStringProperty("key", fields[1]);
                    message.setStringProperty("symbol", fields[2]);
                    message.setStringProperty("date", fields[3]);
                    message.setIntProperty("volume", Integer.parseInt(fields[5]));
                    if (again) {
                        System.out.println("resending " + fields[1]);
                        again = false;
                    }
                    producer.send(session.createQueue(fields[0]), message);
                    System.out.println("answered " + fields[1]);
                    next++;
                }
                connection.close();
            } catch (JMSException broken) {
                again = true;
                Thread.sleep(100);
            }
        }
    }

    private static void receive(String url, String queue) throws Exception {
        Connection connection = new ActiveMQConnectionFactory(url).createConnection();
        try {
            connection.start();
            Session session = connection.createSession(false, Session.CLIENT_ACKNOWLEDGE);
            MessageConsumer consumer = session.createConsumer(session.createQueue(queue));
            List<Message> held = new ArrayList<>();
            while (!finished) {
                Message message = consumer.receive(50);
                if (message != null) {
                    held.add(message);
                }
                if (hold) {
                    System.out.println("held " + held.size());
                } else if (!held.isEmpty() && (message == null || held.size() >= 100)) {
                    for (Message taken : held) {
                        System.out.println("delivered " + taken.getStringProperty("key") + "\t" + taken.getJMSRedelivered() + "\t"
                            + ((TextMessage) taken).getText());
                    }
                    held.get(held.size() - 1).acknowledge();
                    held.clear();
                }
                if (((ActiveMQConnection) connection).isTransportFailed()) {
                    throw new JMSException("the connection is gone");
                }
            }
        } finally {
            try {
                connection.close();
            } catch (JMSException gone) {
                System.err.println("trader: " + gone.getMessage());
            }
        }
    }

    private static void readCommands() {
        try (BufferedReader reader = new BufferedReader(new InputStreamReader(System.in))) {
            for (String line = reader.readLine(); line != null; line = reader.readLine()) {
                hold = line.equals("hold");
                finished = finished || line.equals("finish");
            }
        } catch (java.io.IOException closed) {
            System.err.println("trader: " + closed.getMessage());
        }
        finished = true;
    }
}
