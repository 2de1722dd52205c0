import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import javax.jms.Connection;
import javax.jms.DeliveryMode;
import javax.jms.ExceptionListener;
import javax.jms.JMSException;
import javax.jms.MessageProducer;
import javax.jms.QueueBrowser;
import javax.jms.Session;
import javax.jms.TextMessage;
import org.apache.activemq.ActiveMQConnection;
import org.apache.activemq.ActiveMQConnectionFactory;
import org.apache.activemq.command.ActiveMQQueue;

/** What happens to a user without a right, and to somebody who is no user: exception, words, life of the connection. */
public final class Rights {
    interface Attempt {
        void make(ActiveMQConnection connection, Session session) throws Exception;
    }

    private static final Map<String, Attempt> ATTEMPTS = new LinkedHashMap<>();
    private static final long LISTENER_PATIENCE_MS = 5_000;

    private Rights() {}

    static {
        ATTEMPTS.put("read queue", (c, s) -> s.createConsumer(s.createQueue("WO.a")));
        ATTEMPTS.put("read topic", (c, s) -> s.createConsumer(s.createTopic("WO.t")));
        ATTEMPTS.put("browse", (c, s) -> {
            QueueBrowser browser = s.createBrowser(s.createQueue("WO.a"));
            browser.getEnumeration();
        });
        ATTEMPTS.put("write, producer", (c, s) -> s.createProducer(s.createQueue("RO.a")));
        ATTEMPTS.put("write, no destination", (c, s) -> {
            s.createProducer(null).send(s.createQueue("RO.a"), s.createTextMessage("x"));
        });
        ATTEMPTS.put("write, asynchronous", (c, s) -> {
            MessageProducer producer = s.createProducer(null);
            producer.setDeliveryMode(DeliveryMode.NON_PERSISTENT);
            producer.send(s.createQueue("RO.a"), s.createTextMessage("x"));
        });
        ATTEMPTS.put("write in a transaction", (c, ignored) -> {
            Session session = c.createSession(true, Session.SESSION_TRANSACTED);
            session.createProducer(null).send(session.createQueue("RO.a"), session.createTextMessage("x"));
            session.commit();
        });
        ATTEMPTS.put("create, consumer", (c, s) -> s.createConsumer(s.createQueue("NA.new1")));
        ATTEMPTS.put("create, producer", (c, s) -> s.createProducer(s.createQueue("NA.new2")));
        ATTEMPTS.put("temporary queue", (c, s) -> s.createTemporaryQueue());
        ATTEMPTS.put("created before", (c, s) -> {
            s.createProducer(s.createQueue("NA.old")).send(s.createTextMessage("x"));
        });
        ATTEMPTS.put("destroy", (c, s) -> c.destroyDestination(new ActiveMQQueue("NA.old")));
        ATTEMPTS.put("no entry", (c, s) -> s.createConsumer(s.createQueue("OTHER")));
        ATTEMPTS.put("allowed", (c, s) -> {
            s.createProducer(s.createQueue("RW.a")).send(s.createTextMessage("x"));
            TextMessage message = (TextMessage) s.createConsumer(s.createQueue("RW.a")).receive(LISTENER_PATIENCE_MS);
            if (message == null || !message.getText().equals("x")) {
                throw new IllegalStateException("the message did not come");
            }
        });
    }

    /** Answers `rights URI CANARY` lines like Interop does. */
    public static void main(String[] ignored) throws Exception {
        BufferedReader questions = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Observer observer = new Observer(questions);
        for (String line = questions.readLine(); line != null; line = questions.readLine()) {
            String[] words = line.split("\t", -1);
            try {
                logins(words[1], words[2], observer);
                attempts(words[1], words[2], observer);
                observer.end("done", true);
            } catch (Throwable failure) {
                observer.end("failure", failure.toString());
            }
        }
        System.exit(0);
    }

    private static void logins(String uri, String password, Observer observer) throws Exception {
        String[][] credentials = {
            {"user", "wrong"}, {"nobody", password}, {null, null}, {"user", null}, {"", ""}, {"user", password}
        };
        for (String[] pair : credentials) {
            String outcome = "logged in";
            Connection connection = new ActiveMQConnectionFactory(uri).createConnection(pair[0], pair[1]);
            try {
                connection.start();
            } catch (JMSException refusal) {
                outcome = plain(refusal) + causes(refusal);
            } finally {
                quietly(connection);
            }
            observer.see("login", pair[0], "right", password.equals(pair[1]), "outcome", outcome);
        }
    }

    private static void attempts(String uri, String password, Observer observer) throws Exception {
        Connection root = new ActiveMQConnectionFactory(uri).createConnection("root", password);
        root.start();
        Session rootSession = root.createSession(false, Session.AUTO_ACKNOWLEDGE);
        for (String name : new String[] {"WO.a", "RO.a", "NA.old"}) {
            rootSession.createProducer(rootSession.createQueue(name)).close();
        }
        rootSession.createProducer(rootSession.createTopic("WO.t")).close();
        for (Map.Entry<String, Attempt> attempt : ATTEMPTS.entrySet()) {
            List<String> heard = new ArrayList<>();
            ActiveMQConnection connection =
                    (ActiveMQConnection) new ActiveMQConnectionFactory(uri).createConnection("user", password);
            connection.setExceptionListener(new ExceptionListener() {
                @Override
                public void onException(JMSException exception) {
                    synchronized (heard) {
                        heard.add(plain(exception));
                        heard.notifyAll();
                    }
                }
            });
            connection.start();
            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            String outcome = "no exception";
            try {
                attempt.getValue().make(connection, session);
            } catch (JMSException refusal) {
                outcome = plain(refusal) + causes(refusal);
            }
            if (attempt.getKey().contains("asynchronous") || attempt.getKey().contains("transaction")) {
                synchronized (heard) {
                    if (heard.isEmpty()) {
                        heard.wait(LISTENER_PATIENCE_MS);
                    }
                }
            }
            boolean survives = survives(connection);
            synchronized (heard) {
                observer.see("case", attempt.getKey(), "outcome", outcome, "survives", survives, "heard", heard);
            }
            quietly(connection);
        }
        quietly(root);
    }

    private static boolean survives(ActiveMQConnection connection) {
        try {
            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            session.createProducer(session.createQueue("RW.a")).close();
            return true;
        } catch (JMSException broken) {
            return false;
        }
    }

    private static String plain(Throwable exception) {
        return (exception.getClass().getName() + ": " + exception.getMessage())
                .replaceAll("ID:[\\w.-]+-\\d+-\\d+-\\d+:\\d+", "ID:<conn>");
    }

    private static String causes(Throwable exception) {
        StringBuilder found = new StringBuilder();
        for (Throwable cause = exception.getCause(); cause != null; cause = cause.getCause()) {
            found.append(" <- ").append(plain(cause));
        }
        return found.toString();
    }

    private static void quietly(Connection connection) {
        try {
            connection.close();
        } catch (JMSException | RuntimeException ignored) {
            // A refused login leaves nothing to close.
        }
    }
}
