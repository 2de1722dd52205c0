import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Enumeration;
import java.util.List;
import javax.jms.Connection;
import javax.jms.JMSException;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Queue;
import javax.jms.QueueBrowser;
import javax.jms.Session;
import javax.jms.TemporaryQueue;
import javax.jms.TextMessage;
import org.apache.activemq.ActiveMQConnectionFactory;
import org.apache.activemq.command.ActiveMQMessage;

/** A program that moves messages exactly once, with nothing but JMS. */
public final class ControlDestination {
    private static final String CONTROL = "ActiveMQ.Spanwire.Control";
    private static final long PATIENCE_MS = 30_000;

    private final Session session;
    private final Queue control;
    private final MessageProducer producer;
    private final TemporaryQueue answers;
    private final MessageConsumer consumer;

    private ControlDestination(Connection connection) throws JMSException {
        session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        control = session.createQueue(CONTROL);
        producer = session.createProducer(control);
        answers = session.createTemporaryQueue();
        consumer = session.createConsumer(answers);
    }

    /** Answers `control URI PASSWORD` lines like Interop does. */
    public static void main(String[] ignored) throws Exception {
        BufferedReader questions = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Observer observer = new Observer(questions);
        for (String line = questions.readLine(); line != null; line = questions.readLine()) {
            String[] words = line.split("\t", -1);
            try {
                Connection connection = new ActiveMQConnectionFactory(words[1]).createConnection("mover", words[2]);
                connection.start();
                ControlDestination mover = new ControlDestination(connection);
                mover.reads(observer);
                mover.commits(connection, observer);
                connection.close();
                Connection other = new ActiveMQConnectionFactory(words[1]).createConnection("guest", words[2]);
                other.start();
                new ControlDestination(other).mayNot(other, observer);
                other.close();
                observer.end("done", true);
            } catch (Throwable failure) {
                observer.end("failure", failure.toString());
            }
        }
        System.exit(0);
    }

    private Message ask(String body, Object... properties) throws JMSException {
        TextMessage request = session.createTextMessage(body);
        for (int i = 0; i < properties.length; i += 2) {
            request.setObjectProperty((String) properties[i], properties[i + 1]);
        }
        request.setJMSReplyTo(answers);
        request.setJMSCorrelationID("request " + properties[1]);
        producer.send(request);
        Message answer = consumer.receive(PATIENCE_MS);
        if (answer == null || !answer.getJMSCorrelationID().equals(request.getJMSCorrelationID())) {
            throw new IllegalStateException("no answer to " + properties[1]);
        }
        return answer;
    }

    private String refusal(String body, Object... properties) throws JMSException {
        Message answer = ask(body, properties);
        return answer.getStringProperty("status") + " " + answer.getStringProperty("reason");
    }

    private void range(Observer observer, long epoch, long from, long to) throws JMSException {
        QueueBrowser browser = session.createBrowser(
                control, "cursor = 'nightly' AND epoch = " + epoch + " AND from = " + from + " AND to = " + to);
        List<String> seen = new ArrayList<>();
        Enumeration<?> messages = browser.getEnumeration();
        while (messages.hasMoreElements()) {
            TextMessage message = (TextMessage) messages.nextElement();
            seen.add(((ActiveMQMessage) message).getMessageId().getBrokerSequenceId() + " " + message.getText() + " "
                    + message.getIntProperty("number") + " " + message.getJMSDestination());
        }
        browser.close();
        observer.see("range", seen);
    }

    private void reads(Observer observer) throws JMSException {
        MessageProducer orders = session.createProducer(session.createQueue("ORDERS"));
        for (int i = 0; i < 5; i++) {
            TextMessage message = session.createTextMessage("m" + i);
            message.setIntProperty("number", i);
            orders.send(message);
        }
        Message opened = ask("", "action", "open", "cursor", "nightly", "queue", "ORDERS", "run", "r1");
        long epoch = opened.getLongProperty("epoch");
        Message held = ask("", "action", "reserve", "cursor", "nightly", "epoch", epoch, "messages", 3);
        observer.see("held", held.getLongProperty("from") + " " + held.getLongProperty("to"));
        range(observer, epoch, 0, 3);
        range(observer, epoch, 1, 3);
        held = ask("", "action", "reserve", "cursor", "nightly", "epoch", epoch, "messages", 3, "acknowledge", 2);
        observer.see("held", held.getLongProperty("from") + " " + held.getLongProperty("to"));
        range(observer, epoch, 2, 5);
        ask("", "action", "open", "cursor", "nightly", "queue", "ORDERS", "run", "r2");
        observer.see("late", refusal("", "action", "acknowledge", "cursor", "nightly", "epoch", epoch, "to", 5));
        try {
            range(observer, epoch, 2, 5);
        } catch (JMSException refused) {
            observer.see("late", refused.getMessage());
        }
        held = ask("", "action", "acknowledge", "cursor", "nightly", "epoch", epoch + 1, "to", 5);
        observer.see("held", held.getLongProperty("from") + " " + held.getLongProperty("to"));
        observer.see("left", count("ORDERS"));
    }

    private int count(String queue) throws JMSException {
        QueueBrowser browser = session.createBrowser(session.createQueue(queue));
        int count = 0;
        for (Enumeration<?> messages = browser.getEnumeration(); messages.hasMoreElements(); messages.nextElement()) {
            count++;
        }
        browser.close();
        return count;
    }

    private void stage(Connection connection, long epoch, String... texts) throws JMSException {
        Session staging = connection.createSession(true, Session.SESSION_TRANSACTED);
        try {
            MessageProducer any = staging.createProducer(null);
            for (String text : texts) {
                any.send(staging.createQueue("ORDERS.OUT"), staging.createTextMessage(text));
            }
            Message stage = staging.createMessage();
            stage.setStringProperty("action", "stage");
            stage.setStringProperty("query", "query");
            stage.setLongProperty("epoch", epoch);
            stage.setLongProperty("batch", 7);
            stage.setIntProperty("partition", 0);
            stage.setLongProperty("attempt", epoch);
            any.send(staging.createQueue(CONTROL), stage);
            staging.commit();
        } finally {
            staging.close();
        }
    }

    private static String reason(Throwable refused) {
        return refused.getCause() == null ? refused.getMessage() : reason(refused.getCause());
    }

    private void commits(Connection connection, Observer observer) throws JMSException {
        Message begun = ask("", "action", "begin", "query", "query", "run", "r1");
        observer.see("begun", begun.getLongProperty("epoch") + " " + begun.getLongProperty("batch"));
        stage(connection, 1, "old");
        ask("", "action", "begin", "query", "query", "run", "r2");
        try {
            stage(connection, 1, "late");
        } catch (JMSException refused) {
            observer.see("late", reason(refused));
        }
        stage(connection, 2, "a", "b");
        observer.see("visible", count("ORDERS.OUT"));
        Object[] commit = {"action", "commit", "query", "query", "epoch", 2L, "batch", 7L};
        Message done = ask("0 2 2\n", commit);
        observer.see("committed", done.getLongProperty("messages") + " " + done.getBooleanProperty("repeated"));
        done = ask("0 2 2\n", commit);
        observer.see("committed", done.getLongProperty("messages") + " " + done.getBooleanProperty("repeated"));
        observer.see("visible", count("ORDERS.OUT"));
    }

    private void mayNot(Connection connection, Observer observer) throws JMSException {
        observer.see("refused", refusal("", "action", "open", "cursor", "x", "queue", "ORDERS", "run", "r1"));
        observer.see("refused", refusal("", "action", "release", "cursor", "nightly", "epoch", 2));
        observer.see("refused", refusal("", "action", "commit", "query", "query", "epoch", 2, "batch", 8));
        observer.see("listed", ((TextMessage) ask("", "action", "cursors")).getText());
        try {
            range(observer, 2, 5, 5);
        } catch (JMSException refused) {
            observer.see("refused", refused.getMessage());
        }
        ask("", "action", "begin", "query", "own", "run", "r1");
        Session staging = connection.createSession(true, Session.SESSION_TRANSACTED);
        MessageProducer any = staging.createProducer(null);
        any.send(staging.createQueue("ORDERS.OUT"), staging.createTextMessage("x"));
        Message stage = staging.createMessage();
        String[] names = {"epoch", "batch", "partition", "attempt"};
        stage.setStringProperty("action", "stage");
        stage.setStringProperty("query", "own");
        for (String name : names) {
            stage.setLongProperty(name, 1);
        }
        any.send(staging.createQueue(CONTROL), stage);
        try {
            staging.commit();
        } catch (JMSException refused) {
            observer.see("refused", reason(refused));
        }
    }
}
