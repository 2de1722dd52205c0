import java.util.Set;
import java.util.TreeSet;
import javax.jms.Destination;
import javax.jms.JMSException;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Queue;
import javax.jms.Session;
import javax.jms.TemporaryQueue;
import org.apache.activemq.ActiveMQConnection;
import org.apache.activemq.advisory.AdvisorySupport;
import org.apache.activemq.command.ActiveMQDestination;
import org.apache.activemq.command.ActiveMQMessage;
import org.apache.activemq.command.ActiveMQQueue;
import org.apache.activemq.command.DataStructure;
import org.apache.activemq.command.DestinationInfo;

/** What the broker tells about its own consumers, producers and destinations. */
final class Advisories {
    private Advisories() {}

    static void counts(Clients clients, String[] arguments, Observer observer) throws Exception {
        Session watching = Clients.session(clients.connect());
        Session session = Clients.session(clients.connect());
        Queue queue = session.createQueue("ADVISED");
        ActiveMQDestination destination = (ActiveMQDestination) queue;
        MessageConsumer queues = watching.createConsumer(AdvisorySupport.QUEUE_ADVISORY_TOPIC);
        MessageConsumer consumers = watching.createConsumer(AdvisorySupport.getConsumerAdvisoryTopic(destination));
        MessageConsumer producers = watching.createConsumer(AdvisorySupport.getProducerAdvisoryTopic(destination));
        MessageConsumer first = session.createConsumer(queue);
        see(observer, consumers, "consumerCount");
        MessageConsumer second = session.createConsumer(queue, "a = 1");
        see(observer, consumers, "consumerCount");
        first.close();
        see(observer, consumers, "consumerCount");
        second.close();
        see(observer, consumers, "consumerCount");
        MessageProducer producer = session.createProducer(queue);
        see(observer, producers, "producerCount");
        producer.close();
        see(observer, producers, "producerCount");
        seeDestination(observer, queues, "queue://ADVISED");
        late(watching, session, queue, observer);
        temporary(watching, session, observer);
    }

    /** Who comes to the advisories late is told what is there. */
    private static void late(Session watching, Session session, Queue queue, Observer observer) throws Exception {
        MessageConsumer there = session.createConsumer(queue);
        Destination topic = AdvisorySupport.getConsumerAdvisoryTopic((ActiveMQDestination) queue);
        MessageConsumer late = watching.createConsumer(topic);
        see(observer, late, "consumerCount");
        there.close();
        see(observer, late, "consumerCount");
        late.close();
    }

    private static void temporary(Session watching, Session session, Observer observer) throws Exception {
        MessageConsumer temporaries = watching.createConsumer(AdvisorySupport.TEMP_QUEUE_ADVISORY_TOPIC);
        TemporaryQueue temporary = session.createTemporaryQueue();
        String name = ((ActiveMQDestination) temporary).getQualifiedName();
        seeDestination(observer, temporaries, name);
        temporary.delete();
        seeDestination(observer, temporaries, name);
    }

    private static void see(Observer observer, MessageConsumer advisories, String count) throws Exception {
        ActiveMQMessage advisory = (ActiveMQMessage) advisories.receive(Clients.PATIENCE_MS);
        DataStructure about = advisory.getDataStructure();
        observer.see(
                "about", about.getClass().getSimpleName(),
                count, String.valueOf(advisory.getObjectProperty(count)),
                "type", advisory.getJMSType(),
                "names", new TreeSet<>(advisory.getProperties().keySet()));
    }

    /** Passes over what is told of other destinations. */
    private static void seeDestination(Observer observer, MessageConsumer advisories, String name) throws JMSException {
        while (true) {
            ActiveMQMessage advisory = (ActiveMQMessage) advisories.receive(Clients.PATIENCE_MS);
            if (advisory == null) {
                throw new IllegalStateException("nothing was told of " + name);
            }
            DestinationInfo info = (DestinationInfo) advisory.getDataStructure();
            if (info.getDestination().getQualifiedName().equals(name)) {
                observer.see("operation", (int) info.getOperationType(), "type", advisory.getJMSType());
                return;
            }
        }
    }

    /** The client's own list of destinations, which it learns from advisories. */
    static void destinationSource(Clients clients, String[] arguments, Observer observer) throws Exception {
        ActiveMQConnection connection = clients.connect();
        Session session = Clients.session(connection);
        Clients.send(session, session.createQueue("SOURCE.BEFORE"), "a");
        var source = connection.getDestinationSource();
        Clients.send(session, session.createQueue("SOURCE.AFTER"), "a");
        Set<String> wanted = Set.of("SOURCE.BEFORE", "SOURCE.AFTER");
        long deadline = System.currentTimeMillis() + Clients.PATIENCE_MS;
        Set<String> found = new TreeSet<>();
        while (!found.containsAll(wanted) && System.currentTimeMillis() < deadline) {
            for (ActiveMQQueue queue : source.getQueues()) {
                if (queue.getPhysicalName().startsWith("SOURCE.")) {
                    found.add(queue.getPhysicalName());
                }
            }
            Thread.sleep(2);
        }
        observer.see("found", found);
    }
}
