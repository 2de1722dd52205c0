import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import javax.jms.JMSException;
import javax.jms.MessageProducer;
import javax.jms.Session;
import org.apache.activemq.ActiveMQConnection;

/** Persistent sends of failover clients whose answers are lost on the way: what the clients think was taken. */
final class Resends {
    private static final String OPTIONS =
            "initialReconnectDelay=10&maxReconnectDelay=50&randomize=false&jms.alwaysSyncSend=true";

    private Resends() {}

    /** One producer; says before which of its sends the answer is to be lost. Arguments: queue, count, numbers. */
    static void one(Clients clients, String[] arguments, Observer observer) throws Exception {
        Session session = Clients.session(failingOver(clients));
        MessageProducer producer = session.createProducer(session.createQueue(arguments[0]));
        List<String> lost = List.of(arguments[2].split(","));
        List<String> taken = new ArrayList<>();
        for (int number = 0; number < Integer.parseInt(arguments[1]); number++) {
            String text = "one-" + number;
            if (lost.contains(String.valueOf(number))) {
                observer.await("lose " + number);
            }
            producer.send(session.createTextMessage(text));
            taken.add(text);
        }
        observer.see("taken", taken);
    }

    /** Several connections that send while answers are lost at any moment. Arguments: queue, connections, count. */
    static void many(Clients clients, String[] arguments, Observer observer) throws Exception {
        int connections = Integer.parseInt(arguments[1]);
        int count = Integer.parseInt(arguments[2]);
        List<String> taken = Collections.synchronizedList(new ArrayList<>());
        List<String> failures = Collections.synchronizedList(new ArrayList<>());
        CountDownLatch first = new CountDownLatch(connections * 5);
        List<Thread> threads = new ArrayList<>();
        for (int i = 0; i < connections; i++) {
            String name = "many-" + i + "-";
            Session session = Clients.session(failingOver(clients));
            MessageProducer producer = session.createProducer(session.createQueue(arguments[0]));
            threads.add(new Thread(() -> {
                try {
                    for (int number = 0; number < count; number++) {
                        producer.send(session.createTextMessage(name + number));
                        taken.add(name + number);
                        first.countDown();
                    }
                } catch (JMSException failure) {
                    failures.add(failure.toString());
                }
            }));
        }
        threads.forEach(Thread::start);
        first.await();
        observer.await("running");
        for (Thread thread : threads) {
            thread.join();
        }
        observer.see("taken", taken, "failures", failures);
    }

    /** A commit whose answer is lost: what the client says of it. Argument: queue. */
    static void commit(Clients clients, String[] arguments, Observer observer) throws Exception {
        ActiveMQConnection connection = failingOver(clients);
        Session session = connection.createSession(true, Session.SESSION_TRANSACTED);
        MessageProducer producer = session.createProducer(session.createQueue(arguments[0]));
        for (int number = 0; number < 3; number++) {
            producer.send(session.createTextMessage("transacted-" + number));
        }
        observer.await("lose commit");
        String outcome = "committed";
        try {
            session.commit();
        } catch (JMSException failure) {
            outcome = failure.getClass().getName();
        }
        observer.see("outcome", outcome);
    }

    private static ActiveMQConnection failingOver(Clients clients) throws JMSException {
        ActiveMQConnection connection = clients.openAt("failover:(" + clients.uri + ")?" + OPTIONS);
        connection.start();
        return connection;
    }
}
