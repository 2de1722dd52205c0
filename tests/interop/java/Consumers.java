import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import javax.jms.Connection;
import javax.jms.DeliveryMode;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Queue;
import javax.jms.QueueBrowser;
import javax.jms.Session;
import javax.jms.TextMessage;
import org.apache.activemq.ActiveMQConnection;

/** Which consumer gets which messages, and when. */
final class Consumers {
    private static final String[] SELECTORS = {
        "number > 3 AND colour = 'red'",
        "colour IN ('red', 'green') OR number BETWEEN 9 AND 10",
        "colour LIKE 'b_u%'",
        "colour IS NULL",
        "NOT (number = 1) AND number * 2 < 8",
        "JMSPriority = 7",
        "JMSType = 'even'",
        "JMSCorrelationID LIKE 'c-1%'",
        "JMSDeliveryMode = 'PERSISTENT'",
        "ratio >= 2.5",
        "flag",
        "JMSXGroupID = 'g'",
    };

    private Consumers() {}

    static void register(Map<String, Interop.Scenario> scenarios) {
        scenarios.put("selectors", Consumers::selectors);
        scenarios.put("selector-and-rest", Consumers::selectorAndRest);
        scenarios.put("browser", Consumers::browser);
        scenarios.put("prefetch-0", (clients, arguments, observer) -> prefetch(clients, observer, 0));
        scenarios.put("prefetch-1", (clients, arguments, observer) -> prefetch(clients, observer, 1));
        scenarios.put("prefetch-1000", (clients, arguments, observer) -> prefetch(clients, observer, 1000));
        scenarios.put("pull-waits", Consumers::pullWaits);
        scenarios.put("round-robin", Consumers::roundRobin);
        scenarios.put("slow-and-quick", Consumers::slowAndQuick);
        scenarios.put("listener", Consumers::listener);
        scenarios.put("stop-and-start", Consumers::stopAndStart);
    }

    private static void selectors(Clients clients, String[] arguments, Observer observer) throws Exception {
        Connection connection = clients.connect();
        Session session = Clients.session(connection);
        for (int i = 0; i < SELECTORS.length; i++) {
            for (String selector : new String[] {SELECTORS[i], "NOT (" + SELECTORS[i] + ")"}) {
                Queue queue = session.createQueue("SELECTORS." + i + "." + selector.equals(SELECTORS[i]));
                sendColours(session, queue);
                MessageConsumer consumer = session.createConsumer(queue, "(" + selector + ") OR last");
                // Brokers may order persistent and other messages differently, so only the set counts.
                Set<String> got = new TreeSet<>();
                for (String text = ""; !"last".equals(text); ) {
                    text = Clients.receive(consumer, Clients.PATIENCE_MS);
                    got.add(String.valueOf(text));
                }
                observer.see("selector", selector, "got", got);
                consumer.close();
            }
        }
    }

    private static void sendColours(Session session, Queue queue) throws Exception {
        MessageProducer producer = session.createProducer(queue);
        String[] colours = {"red", "green", "blue", null};
        for (int i = 1; i <= 12; i++) {
            Message message = session.createTextMessage("m" + i);
            message.setIntProperty("number", i);
            if (colours[i % colours.length] != null) {
                message.setStringProperty("colour", colours[i % colours.length]);
            }
            message.setDoubleProperty("ratio", i / 2.0);
            message.setBooleanProperty("flag", i % 3 == 0);
            message.setJMSCorrelationID("c-" + i);
            message.setJMSType(i % 2 == 0 ? "even" : "odd");
            if (i == 5) {
                message.setStringProperty("JMSXGroupID", "g");
            }
            int mode = i == 6 ? DeliveryMode.PERSISTENT : DeliveryMode.NON_PERSISTENT;
            producer.send(message, mode, i % 10, 0);
        }
        Message last = session.createTextMessage("last");
        last.setBooleanProperty("last", true);
        producer.send(last, DeliveryMode.NON_PERSISTENT, 4, 0);
        producer.close();
    }

    /** A selector takes its messages out of the middle; the others keep their order for everyone else. */
    private static void selectorAndRest(Clients clients, String[] arguments, Observer observer) throws Exception {
        Session session = Clients.session(clients.connect());
        Queue queue = session.createQueue("SELECTORS.REST");
        MessageConsumer even = session.createConsumer(queue, "number = 2 OR number = 4");
        Clients.sendNumbered(session, queue, 5);
        observer.see("selected", Clients.receiveAll(even, 2));
        observer.see("rest", Clients.receiveAll(session.createConsumer(queue), 3));
    }

    /** A browser sees what is there, with and without a selector, and takes nothing away. */
    private static void browser(Clients clients, String[] arguments, Observer observer) throws Exception {
        Session session = Clients.session(clients.connect());
        Queue queue = session.createQueue("BROWSED");
        observer.see("empty", browse(session.createBrowser(queue)));
        Clients.sendNumbered(session, queue, 5);
        observer.see("all", browse(session.createBrowser(queue)));
        observer.see("some", browse(session.createBrowser(queue, "number > 3")));
        QueueBrowser twice = session.createBrowser(queue);
        observer.see("first", browse(twice), "second", browse(twice));
        observer.see("still there", Clients.receiveAll(session.createConsumer(queue), 5));
        observer.see("empty again", browse(session.createBrowser(queue)));
        Queue many = session.createQueue("BROWSED.MANY");
        Clients.sendNumbered(session, many, 1_200);
        observer.see("many", Collections.list(session.createBrowser(many).getEnumeration()).size());
    }

    private static List<String> browse(QueueBrowser browser) throws Exception {
        List<String> texts = new ArrayList<>();
        for (Object message : Collections.list(browser.getEnumeration())) {
            texts.add(((TextMessage) message).getText());
        }
        return texts;
    }

    private static void prefetch(Clients clients, Observer observer, int prefetch) throws Exception {
        Session session = Clients.session(clients.connect("jms.prefetchPolicy.all=" + prefetch));
        Queue queue = session.createQueue("PREFETCH." + prefetch);
        MessageConsumer consumer = session.createConsumer(queue);
        observer.see("at once", Clients.text(consumer.receiveNoWait()));
        observer.see("with time", Clients.receive(consumer, Clients.SILENCE_MS));
        Clients.sendNumbered(session, queue, 7);
        observer.see("first", Clients.receive(consumer, Clients.PATIENCE_MS));
        // What the first consumer holds back is not for the second one: with 1000 it holds back all.
        MessageConsumer other = session.createConsumer(queue);
        observer.see("other", Clients.receive(other, prefetch == 1000 ? Clients.SILENCE_MS : Clients.PATIENCE_MS));
        other.close();
        consumer.close();
        int left = prefetch == 1000 ? 6 : 5;
        observer.see("left", new TreeSet<>(Clients.receiveAll(session.createConsumer(queue), left)));
    }

    /** With prefetch 0 the broker keeps the message until it is asked for. */
    private static void pullWaits(Clients clients, String[] arguments, Observer observer) throws Exception {
        ActiveMQConnection pulling = clients.connect("jms.prefetchPolicy.all=0");
        Session session = Clients.session(pulling);
        Queue queue = session.createQueue("PREFETCH.PULL");
        MessageConsumer consumer = session.createConsumer(queue);
        List<Object> got = Collections.synchronizedList(new ArrayList<>());
        Thread waiting = new Thread(() -> {
            try {
                got.add(Clients.receive(consumer, Clients.PATIENCE_MS));
                got.add(Clients.text(consumer.receive()));
            } catch (Exception failure) {
                got.add(failure.toString());
            }
        });
        waiting.start();
        Session other = Clients.session(clients.connect());
        Clients.send(other, queue, "a", "b", "c");
        waiting.join(2 * Clients.PATIENCE_MS);
        observer.see("pulled", new ArrayList<>(got));
        observer.see("left", Clients.receiveAll(other.createConsumer(queue), 1));
    }

    private static void roundRobin(Clients clients, String[] arguments, Observer observer) throws Exception {
        Session session = Clients.session(clients.connect());
        Queue queue = session.createQueue("ROUND.ROBIN");
        MessageConsumer first = Clients.session(clients.connect()).createConsumer(queue);
        MessageConsumer second = Clients.session(clients.connect()).createConsumer(queue);
        Clients.sendNumbered(session, queue, 10);
        List<List<String>> shares = new ArrayList<>();
        shares.add(Clients.receiveAll(first, 5));
        shares.add(Clients.receiveAll(second, 5));
        shares.sort((a, b) -> a.toString().compareTo(b.toString()));
        observer.see("shares", shares);
    }

    /** One who does not acknowledge gets no more than the prefetch; the other gets all the rest. */
    private static void slowAndQuick(Clients clients, String[] arguments, Observer observer) throws Exception {
        Connection connection = clients.connect();
        Session slow = clients.connect("jms.prefetchPolicy.all=3").createSession(false, Session.CLIENT_ACKNOWLEDGE);
        Queue queue = slow.createQueue("SLOW.AND.QUICK");
        MessageConsumer idle = slow.createConsumer(queue);
        Session quick = Clients.session(connection);
        MessageConsumer busy = quick.createConsumer(queue);
        Clients.sendNumbered(quick, queue, 40);
        observer.see("quick", Clients.receiveAll(busy, 37).size());
        observer.see("slow", Clients.receiveAll(idle, 3).size());
    }

    private static void listener(Clients clients, String[] arguments, Observer observer) throws Exception {
        Session session = Clients.session(clients.connect());
        Queue queue = session.createQueue("LISTENED");
        Session sending = Clients.session(clients.connect());
        List<String> texts = new ArrayList<>();
        session.createConsumer(queue).setMessageListener(message -> {
            synchronized (texts) {
                try {
                    texts.add(Clients.text(message));
                } catch (Exception failure) {
                    texts.add(failure.toString());
                }
                texts.notifyAll();
            }
        });
        Clients.sendNumbered(sending, queue, 50);
        long deadline = System.currentTimeMillis() + Clients.PATIENCE_MS;
        synchronized (texts) {
            while (texts.size() < 50 && System.currentTimeMillis() < deadline) {
                texts.wait(Clients.PATIENCE_MS);
            }
            observer.see("heard", new ArrayList<>(texts));
        }
    }

    /** A stopped connection gets nothing; started again it gets what has been prefetched. */
    private static void stopAndStart(Clients clients, String[] arguments, Observer observer) throws Exception {
        ActiveMQConnection connection = clients.connect();
        Session session = Clients.session(connection);
        Queue queue = session.createQueue("STOPPED");
        MessageConsumer consumer = session.createConsumer(queue);
        connection.stop();
        Clients.send(session, queue, "a");
        observer.see("stopped", Clients.receive(consumer, Clients.SILENCE_MS));
        connection.start();
        observer.see("started", Clients.receive(consumer, Clients.PATIENCE_MS));
    }
}
