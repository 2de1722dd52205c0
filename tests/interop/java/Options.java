import java.util.List;
import java.util.Map;
import javax.jms.BytesMessage;
import javax.jms.Connection;
import javax.jms.DeliveryMode;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Queue;
import javax.jms.QueueRequestor;
import javax.jms.QueueSession;
import javax.jms.Session;
import org.apache.activemq.ActiveMQConnection;

/** What people write behind the question mark of an address, and messages as large as they come. */
final class Options {
    private static final int MESSAGES = 25;
    private static final int LARGE = 8 * 1024 * 1024;
    private static final long IDLE_MS = 2_000;
    private static final List<String> CLIENT = List.of(
            "jms.useAsyncSend=true",
            "jms.alwaysSyncSend=true",
            "jms.dispatchAsync=false",
            "jms.alwaysSessionAsync=false",
            "jms.optimizeAcknowledge=true",
            "jms.producerWindowSize=4096",
            "jms.producerWindowSize=4096&jms.useAsyncSend=true",
            "jms.watchTopicAdvisories=false",
            "jms.copyMessageOnSend=false",
            "jms.messagePrioritySupported=true",
            "jms.prefetchPolicy.queuePrefetch=5",
            "jms.nonBlockingRedelivery=true",
            "jms.checkForDuplicates=false",
            "jms.sendTimeout=10000",
            "jms.userName=user&jms.password=secret",
            "jms.clientID=options",
            "wireFormat.maxFrameSize=1000000",
            "wireFormat.stackTraceEnabled=false",
            "wireFormat.sizePrefixDisabled=false",
            "wireFormat.tcpNoDelayEnabled=false",
            "wireFormat.maxInactivityDuration=0",
            "trace=false&soTimeout=20000&keepAlive=true&ioBufferSize=512");
    private static final List<String> DESTINATION = List.of(
            "consumer.prefetchSize=1",
            "consumer.dispatchAsync=false",
            "consumer.exclusive=true",
            "consumer.priority=7",
            "consumer.retroactive=true",
            "consumer.noLocal=false",
            "consumer.maximumPendingMessageLimit=10");

    private Options() {}

    static void register(Map<String, Interop.Scenario> scenarios) {
        scenarios.put("options", Options::options);
        scenarios.put("large", Options::large);
        scenarios.put("idle", Options::idle);
        scenarios.put("requestor", Options::requestor);
    }

    private static void options(Clients clients, String[] arguments, Observer observer) throws Exception {
        for (String option : CLIENT) {
            exchange(clients, observer, option, "");
        }
        for (String option : DESTINATION) {
            exchange(clients, observer, "jms.useAsyncSend=false", "?" + option);
        }
    }

    /** Messages of both modes through one queue; what is left is nothing. */
    private static void exchange(Clients clients, Observer observer, String option, String suffix) throws Exception {
        Connection connection = clients.connect(option);
        Session session = Clients.session(connection);
        for (int mode : new int[] {DeliveryMode.PERSISTENT, DeliveryMode.NON_PERSISTENT}) {
            Queue queue = session.createQueue("OPTIONS." + mode + suffix);
            MessageConsumer consumer = session.createConsumer(queue);
            MessageProducer producer = session.createProducer(queue);
            producer.setDeliveryMode(mode);
            for (int i = 0; i < MESSAGES; i++) {
                producer.send(session.createTextMessage(i + " " + "x".repeat(200)));
            }
            int inOrder = 0;
            while (inOrder < MESSAGES) {
                String text = Clients.receive(consumer, Clients.PATIENCE_MS);
                if (text == null || !text.startsWith(inOrder + " ")) {
                    break;
                }
                inOrder++;
            }
            boolean empty = consumer.receiveNoWait() == null;
            observer.see("option", option + suffix, "mode", mode, "in order", inOrder, "empty", empty);
            consumer.close();
        }
        connection.close();
    }

    private static void large(Clients clients, String[] arguments, Observer observer) throws Exception {
        byte[] content = new byte[LARGE];
        for (int i = 0; i < LARGE; i++) {
            content[i] = (byte) (i * 7 + i / 1_000);
        }
        Session session = Clients.session(clients.connect());
        Queue queue = session.createQueue("LARGE");
        MessageProducer producer = session.createProducer(queue);
        for (int i = 0; i < 2; i++) {
            BytesMessage message = session.createBytesMessage();
            message.writeBytes(content);
            producer.send(message);
        }
        MessageConsumer consumer = Clients.session(clients.connect()).createConsumer(queue);
        for (int i = 0; i < 2; i++) {
            BytesMessage message = (BytesMessage) consumer.receive(Clients.PATIENCE_MS);
            byte[] received = new byte[(int) message.getBodyLength()];
            message.readBytes(received);
            observer.see("bytes", received.length, "equal", java.util.Arrays.equals(content, received));
        }
    }

    /** Longer idle than the inactivity allows: both sides keep the connection alive. */
    private static void idle(Clients clients, String[] arguments, Observer observer) throws Exception {
        ActiveMQConnection connection = clients.connect(
                "wireFormat.maxInactivityDuration=400", "wireFormat.maxInactivityDurationInitalDelay=800");
        Session session = Clients.session(connection);
        Queue queue = session.createQueue("IDLE");
        MessageConsumer consumer = session.createConsumer(queue);
        observer.see("nothing", Clients.receive(consumer, IDLE_MS));
        Clients.send(session, queue, "still here");
        observer.see("got", Clients.receive(consumer, Clients.PATIENCE_MS));
        observer.see("failed", connection.isTransportFailed());
    }

    private static void requestor(Clients clients, String[] arguments, Observer observer) throws Exception {
        Session server = Clients.session(clients.connect());
        Queue queue = server.createQueue("REQUESTOR");
        MessageProducer replies = server.createProducer(null);
        server.createConsumer(queue).setMessageListener(message -> {
            try {
                replies.send(message.getJMSReplyTo(), server.createTextMessage("re: " + Clients.text(message)));
            } catch (Exception failure) {
                throw new IllegalStateException(failure);
            }
        });
        ActiveMQConnection connection = clients.connect();
        QueueSession session = connection.createQueueSession(false, Session.AUTO_ACKNOWLEDGE);
        QueueRequestor requestor = new QueueRequestor(session, queue);
        for (String text : new String[] {"a", "b"}) {
            Message answer = requestor.request(session.createTextMessage(text));
            observer.see("answer", Clients.text(answer));
        }
        requestor.close();
    }
}
