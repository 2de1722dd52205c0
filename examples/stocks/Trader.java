import java.io.BufferedReader;
import java.io.FileReader;
import java.io.InputStreamReader;
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
 * The Java client of the demonstration: sends the trades of one stock, or takes those of one queue.
 *
 * Speaks to demo.py in lines. A sender prints "sending N", "answered N" and "resending N", where N counts its trades from 0. A receiver
 * prints "held N" and "delivered KEY REDELIVERED PRICE" (fields separated by tabs) and reads "hold", "release" and "finish".
 */
public final class Trader {
    private static volatile boolean hold;
    private static volatile boolean finished;

    public static void main(String[] arguments) throws Exception {
        if (arguments[0].equals("send")) {
            send(arguments[1], arguments[2], arguments[3], Integer.parseInt(arguments[4]));
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

    private static void send(String url, String symbol, String file, int rounds) throws Exception {
        List<String[]> rows = new ArrayList<>();
        try (BufferedReader reader = new BufferedReader(new FileReader(file))) {
            for (String line = reader.readLine(); line != null; line = reader.readLine()) {
                String[] fields = line.split(",");
                if (fields[0].equals(symbol)) {
                    rows.add(fields);
                }
            }
        }
        int next = 0;
        boolean again = false;
        while (next < rows.size() * rounds) {
            try {
                Connection connection = new ActiveMQConnectionFactory(url).createConnection();
                connection.start();
                Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
                MessageProducer trades = session.createProducer(session.createQueue("TRADE.STOCK." + symbol));
                MessageProducer prices = session.createProducer(session.createTopic("PRICE.STOCK." + symbol));
                trades.setDeliveryMode(DeliveryMode.PERSISTENT);
                prices.setDeliveryMode(DeliveryMode.NON_PERSISTENT);
                while (next < rows.size() * rounds) {
                    String[] row = rows.get(next % rows.size());
                    int round = next / rows.size();
                    TextMessage message = session.createTextMessage(row[2]);
                    message.setStringProperty("key", row[0] + "/" + row[1] + "/" + round);
                    message.setStringProperty("symbol", row[0]);
                    message.setIntProperty("round", round);
                    System.out.println((again ? "resending " : "sending ") + next);
                    prices.send(message);
                    trades.send(message);
                    System.out.println("answered " + next);
                    again = false;
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
