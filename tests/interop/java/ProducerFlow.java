import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import javax.jms.Connection;
import javax.jms.DeliveryMode;
import javax.jms.JMSException;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Queue;
import javax.jms.Session;

/** Producers that find no room: who waits, who is refused and how, and that consuming makes them go on. */
final class ProducerFlow {
    private static final int MANY = 400;
    private static final String BODY = "x".repeat(1_000);
    private static final long STUCK_MS = 1_000;

    private ProducerFlow() {}

    public static void main(String[] ignored) throws Exception {
        BufferedReader questions = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Observer observer = new Observer(questions);
        for (String line = questions.readLine(); line != null; line = questions.readLine()) {
            String[] words = line.split("\t", -1);
            try (Clients clients = new Clients(words[1])) {
                switch (words[0]) {
                    case "refused":
                        refused(clients, observer, "FULL.SYNC");
                        reported(clients, observer, "FULL.ASYNC");
                        transacted(clients, observer, "FULL.TRANSACTED");
                        break;
                    case "refused-late":
                        refused(clients, observer, "FULL.SYNC");
                        break;
                    default:
                        waits(clients, observer, "FULL.SYNC", "jms.alwaysSyncSend=true");
                        waits(clients, observer, "FULL.WINDOW", "jms.producerWindowSize=8192");
                        free(clients, observer, "FREE.1");
                }
                observer.end("done", true);
            } catch (Throwable failure) {
                observer.end("failure", failure.toString());
            }
        }
        System.exit(0);
    }

    private static MessageProducer producer(Session session, Queue queue) throws JMSException {
        MessageProducer producer = session.createProducer(queue);
        producer.setDeliveryMode(DeliveryMode.NON_PERSISTENT);
        return producer;
    }

    private static void refused(Clients clients, Observer observer, String name) throws Exception {
        Session session = Clients.session(clients.connect("jms.alwaysSyncSend=true"));
        Queue queue = session.createQueue(name);
        MessageProducer producer = producer(session, queue);
        String outcome = "nothing";
        for (int i = 0; i < MANY && outcome.equals("nothing"); i++) {
            try {
                producer.send(session.createTextMessage(BODY));
            } catch (JMSException refusal) {
                outcome = refusal.getClass().getName() + ": " + refusal.getMessage();
            }
        }
        Queue neighbour = session.createQueue("FREE.NEIGHBOUR");
        producer(session, neighbour).send(session.createTextMessage("neighbour"));
        boolean passes = Clients.receive(session.createConsumer(neighbour), Clients.PATIENCE_MS) != null;
        MessageConsumer consumer = session.createConsumer(queue);
        boolean drains = Clients.receive(consumer, Clients.PATIENCE_MS) != null;
        while (Clients.receive(consumer, Clients.SILENCE_MS) != null) {}
        producer.send(session.createTextMessage(Clients.LAST));
        boolean again = !Clients.receiveUntilLast(consumer).contains(null);
        observer.see("case", "refused " + name, "outcome", outcome, "neighbour", passes, "drains", drains, "again", again);
    }

    /** One that asked for no answer hears of it through its connection. */
    private static void reported(Clients clients, Observer observer, String name) throws Exception {
        Connection connection = clients.connect("jms.useAsyncSend=true");
        AtomicReference<JMSException> report = new AtomicReference<>();
        CountDownLatch told = new CountDownLatch(1);
        connection.setExceptionListener(failure -> {
            report.compareAndSet(null, failure);
            told.countDown();
        });
        Session session = Clients.session(connection);
        MessageProducer producer = producer(session, session.createQueue(name));
        for (int i = 0; i < MANY && told.getCount() > 0; i++) {
            producer.send(session.createTextMessage(BODY));
        }
        told.await(Clients.PATIENCE_MS, TimeUnit.MILLISECONDS);
        JMSException failure = report.get();
        String outcome = failure == null ? "nothing" : failure.getClass().getName() + ": " + failure.getMessage();
        observer.see("case", "reported", "outcome", outcome);
    }

    private static void transacted(Clients clients, Observer observer, String name) throws Exception {
        Session session = clients.connect().createSession(true, Session.SESSION_TRANSACTED);
        MessageProducer producer = producer(session, session.createQueue(name));
        String outcome = "nothing";
        try {
            for (int i = 0; i < MANY; i++) {
                producer.send(session.createTextMessage(BODY));
            }
            session.commit();
        } catch (JMSException refusal) {
            outcome = refusal.getClass().getName();
            session.rollback();
        }
        observer.see("case", "transacted", "outcome", outcome);
    }

    /** The sends stop, and go on when somebody consumes; nothing is lost. */
    private static void waits(Clients clients, Observer observer, String name, String option)
            throws Exception {
        Connection connection = clients.connect(option);
        Session session = Clients.session(connection);
        Queue queue = session.createQueue(name);
        MessageProducer producer = producer(session, queue);
        AtomicInteger sent = new AtomicInteger();
        AtomicReference<String> failure = new AtomicReference<>("none");
        Thread sender = new Thread(() -> {
            try {
                for (int i = 0; i < MANY; i++) {
                    producer.send(session.createTextMessage(i + " " + BODY));
                    sent.incrementAndGet();
                }
            } catch (JMSException stopped) {
                failure.set(stopped.toString());
            }
        });
        sender.start();
        int before = -1;
        while (before != sent.get()) {
            before = sent.get();
            sender.join(STUCK_MS);
        }
        boolean stopped = before > 0 && before < MANY;
        Session other = Clients.session(clients.connect());
        MessageConsumer consumer = other.createConsumer(other.createQueue(name));
        int inOrder = 0;
        while (inOrder < MANY) {
            String text = Clients.receive(consumer, Clients.PATIENCE_MS);
            if (text == null || !text.startsWith(inOrder + " ")) {
                break;
            }
            inOrder++;
        }
        sender.join(Clients.PATIENCE_MS);
        observer.see("case", "waits " + name, "stopped", stopped, "inOrder", inOrder, "sent", sent.get(),
                "error", failure.get());
    }

    /** Without flow control nobody waits. */
    private static void free(Clients clients, Observer observer, String name) throws Exception {
        Session session = Clients.session(clients.connect("jms.alwaysSyncSend=true"));
        Queue queue = session.createQueue(name);
        MessageProducer producer = producer(session, queue);
        for (int i = 0; i < MANY; i++) {
            producer.send(session.createTextMessage(i + " " + BODY));
        }
        MessageConsumer consumer = session.createConsumer(queue);
        int inOrder = 0;
        while (inOrder < MANY) {
            String text = Clients.receive(consumer, Clients.PATIENCE_MS);
            if (text == null || !text.startsWith(inOrder + " ")) {
                break;
            }
            inOrder++;
        }
        observer.see("case", "free", "inOrder", inOrder);
    }
}
