import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import javax.jms.Connection;
import javax.jms.DeliveryMode;
import javax.jms.JMSException;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Queue;
import javax.jms.Session;
import javax.jms.TemporaryQueue;
import javax.jms.TextMessage;
import javax.jms.TransactionRolledBackException;
import org.apache.activemq.ActiveMQConnection;

/** Many clients at once, and clients whose broker goes away. */
final class Load {
    private static final int THREADS = 4;
    private static final int PER_PRODUCER = 500;
    private static final int KILL_AFTER = 300;

    private Load() {}

    /** Four producers, four consumers: nothing lost, nothing twice, each producer's messages in order at each consumer. */
    static void concurrent(Clients clients, String[] arguments, Observer observer) throws Exception {
        int total = THREADS * PER_PRODUCER;
        CountDownLatch outstanding = new CountDownLatch(total);
        List<Map<Integer, Integer>> lastSeen = new ArrayList<>();
        AtomicInteger outOfOrder = new AtomicInteger();
        Map<String, Integer> counts = Collections.synchronizedMap(new TreeMap<>());
        for (int i = 0; i < THREADS; i++) {
            Map<Integer, Integer> last = new TreeMap<>();
            lastSeen.add(last);
            Session session = Clients.session(clients.connect());
            session.createConsumer(session.createQueue("CONCURRENT")).setMessageListener(message -> {
                try {
                    int producer = message.getIntProperty("producer");
                    int number = message.getIntProperty("number");
                    if (last.getOrDefault(producer, -1) >= number) {
                        outOfOrder.incrementAndGet();
                    }
                    last.put(producer, number);
                    counts.merge(producer + "/" + number, 1, Integer::sum);
                    outstanding.countDown();
                } catch (JMSException failure) {
                    throw new IllegalStateException(failure);
                }
            });
        }
        List<Thread> producers = new ArrayList<>();
        for (int i = 0; i < THREADS; i++) {
            int producer = i;
            producers.add(new Thread(() -> produce(clients, producer)));
        }
        producers.forEach(Thread::start);
        for (Thread producer : producers) {
            producer.join();
        }
        boolean all = outstanding.await(Clients.PATIENCE_MS, TimeUnit.MILLISECONDS);
        long twice = counts.values().stream().filter(count -> count > 1).count();
        observer.see("all", all, "different", counts.size(), "twice", twice, "out of order", outOfOrder.get());
    }

    private static void produce(Clients clients, int producerNumber) {
        try {
            Session session = Clients.session(clients.connect());
            MessageProducer producer = session.createProducer(session.createQueue("CONCURRENT"));
            producer.setDeliveryMode(producerNumber % 2 == 0 ? DeliveryMode.NON_PERSISTENT : DeliveryMode.PERSISTENT);
            for (int number = 0; number < PER_PRODUCER; number++) {
                Message message = session.createTextMessage("x".repeat(100));
                message.setIntProperty("producer", producerNumber);
                message.setIntProperty("number", number);
                producer.send(message);
            }
        } catch (JMSException failure) {
            throw new IllegalStateException(failure);
        }
    }

    /** With failover: the client waits for the restarted broker, announces itself again and goes on. */
    static void failover(Clients clients, String[] arguments, Observer observer) throws Exception {
        ActiveMQConnection connection = failingOver(clients);
        Session session = Clients.session(connection);
        Queue queue = session.createQueue("FAILOVER");
        Session client = connection.createSession(false, Session.CLIENT_ACKNOWLEDGE);
        MessageConsumer consumer = client.createConsumer(queue);
        MessageProducer producer = session.createProducer(queue);
        producer.send(session.createTextMessage("before"));
        Message before = consumer.receive(Clients.PATIENCE_MS);
        observer.see("received", Clients.text(before));
        before.acknowledge();
        producer.send(session.createTextMessage("kept"));
        Message unacknowledged = consumer.receive(Clients.PATIENCE_MS);
        observer.see("received", Clients.text(unacknowledged));
        TemporaryQueue temporary = session.createTemporaryQueue();
        MessageConsumer replies = session.createConsumer(temporary);
        observer.await("restart");
        producer.send(session.createTextMessage("after"));
        for (int i = 0; i < 2; i++) {
            Message message = consumer.receive(Clients.PATIENCE_MS);
            observer.see("text", Clients.text(message));
            message.acknowledge();
        }
        session.createProducer(temporary).send(session.createTextMessage("reply"));
        observer.see("temporary", Clients.receive(replies, Clients.PATIENCE_MS));
        observer.see("left", Clients.receive(consumer, Clients.SILENCE_MS));
    }

    /** A transaction that is open while the broker restarts: the client rolls it back or does all of it again. */
    static void failoverTransaction(Clients clients, String[] arguments, Observer observer) throws Exception {
        ActiveMQConnection connection = failingOver(clients);
        Session transacted = connection.createSession(true, Session.SESSION_TRANSACTED);
        Queue queue = transacted.createQueue("FAILOVER.TX");
        Queue target = transacted.createQueue("FAILOVER.TX.TARGET");
        Clients.send(transacted, queue, "work");
        transacted.commit();
        MessageConsumer consumer = transacted.createConsumer(queue);
        observer.see("received", Clients.receive(consumer, Clients.PATIENCE_MS));
        Clients.send(transacted, target, "result");
        observer.await("restart");
        for (boolean committed = false; !committed; ) {
            try {
                transacted.commit();
                committed = true;
            } catch (TransactionRolledBackException rolledBack) {
                observer.see("rolled back", rolledBack.getClass().getName());
                observer.see("again", Clients.receive(consumer, Clients.PATIENCE_MS));
                Clients.send(transacted, target, "result");
            }
        }
        observer.see("left", Clients.receive(consumer, Clients.SILENCE_MS));
        Session session = Clients.session(connection);
        observer.see("results", Clients.receiveAll(session.createConsumer(target), 1));
    }

    private static ActiveMQConnection failingOver(Clients clients) throws JMSException {
        String options = "initialReconnectDelay=10&maxReconnectDelay=50&jms.redeliveryPolicy.initialRedeliveryDelay=1";
        ActiveMQConnection connection = clients.openAt("failover:(" + clients.uri + ")?" + options);
        connection.start();
        return connection;
    }

    /** Persistent sends by several threads until the broker dies; what was attempted and what was acknowledged. */
    static void persistent(Clients clients, String[] arguments, Observer observer) throws Exception {
        String queue = arguments[0];
        Map<String, Boolean> sent = Collections.synchronizedMap(new LinkedHashMap<>());
        CountDownLatch enough = new CountDownLatch(KILL_AFTER);
        List<Thread> threads = new ArrayList<>();
        for (int i = 0; i < THREADS; i++) {
            String producer = arguments[1] + "-" + i;
            Session session = clients.connect("jms.alwaysSyncSend=true").createSession(i == THREADS - 1, 1);
            threads.add(new Thread(() -> sendUntilBroken(session, queue, producer, sent, enough)));
        }
        threads.forEach(Thread::start);
        enough.await();
        observer.await("kill");
        for (Thread thread : threads) {
            thread.join();
        }
        List<String> acknowledged = new ArrayList<>();
        sent.forEach((id, answered) -> {
            if (answered) {
                acknowledged.add(id);
            }
        });
        observer.see("attempted", new ArrayList<>(sent.keySet()), "acknowledged", acknowledged);
    }

    /** The last thread sends in transactions of one message, the others one by one. */
    private static void sendUntilBroken(
            Session session, String queue, String producerName, Map<String, Boolean> sent, CountDownLatch enough) {
        try {
            MessageProducer producer = session.createProducer(session.createQueue(queue));
            for (int number = 0; ; number++) {
                String id = producerName + "-" + number;
                sent.put(id, false);
                producer.send(session.createTextMessage(id));
                if (session.getTransacted()) {
                    session.commit();
                }
                sent.put(id, true);
                enough.countDown();
            }
        } catch (JMSException broken) {
            // The broker has gone, as it should.
        }
    }

    /**
     * Everything that a queue holds, in its order, each message with its redelivered flag; a share may be left. A last
     * message, sent first of all, tells where the queue ends; that of an earlier drain which left a share is passed over.
     */
    static void drain(Clients clients, String[] arguments, Observer observer) throws Exception {
        Connection connection = clients.connect();
        Session session = connection.createSession(false, Session.CLIENT_ACKNOWLEDGE);
        Queue queue = session.createQueue(arguments[0]);
        String end = Clients.LAST + " " + System.nanoTime();
        Clients.send(session, queue, end);
        MessageConsumer consumer = session.createConsumer(queue);
        int limit = Integer.parseInt(arguments[1]);
        List<String> texts = new ArrayList<>();
        List<String> redelivered = new ArrayList<>();
        TextMessage last = null;
        while (texts.size() < limit) {
            TextMessage message = (TextMessage) consumer.receive(Clients.PATIENCE_MS);
            if (message == null) {
                throw new IllegalStateException("the end of the queue did not come");
            }
            last = message;
            if (message.getText().equals(end)) {
                break;
            }
            if (message.getText().startsWith(Clients.LAST)) {
                continue;
            }
            texts.add(message.getText());
            if (message.getJMSRedelivered()) {
                redelivered.add(message.getText());
            }
        }
        if (last != null) {
            last.acknowledge();
        }
        observer.see("texts", texts, "redelivered", redelivered);
    }
}
