import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Queue;
import javax.jms.Session;
import javax.jms.TemporaryQueue;
import org.apache.activemq.ActiveMQConnection;
import org.apache.activemq.ActiveMQMessageConsumer;
import org.apache.activemq.ActiveMQSession;
import org.apache.activemq.command.ActiveMQDestination;
import org.apache.activemq.command.ActiveMQQueue;
import org.apache.activemq.command.ActiveMQTextMessage;
import org.apache.activemq.command.ActiveMQTopic;
import org.apache.activemq.command.Command;
import org.apache.activemq.command.ConnectionInfo;
import org.apache.activemq.command.ConsumerId;
import org.apache.activemq.command.ConsumerInfo;
import org.apache.activemq.command.LocalTransactionId;
import org.apache.activemq.command.MessageAck;
import org.apache.activemq.command.MessageDispatch;
import org.apache.activemq.command.MessageId;
import org.apache.activemq.command.ProducerId;
import org.apache.activemq.command.ProducerInfo;
import org.apache.activemq.command.RemoveInfo;
import org.apache.activemq.command.RemoveSubscriptionInfo;
import org.apache.activemq.command.SessionId;
import org.apache.activemq.command.SessionInfo;
import org.apache.activemq.command.TransactionInfo;

/** What is refused, with which exception and which words, and whether the connection lives on. */
final class Refusals {
    interface Attempt {
        Object make(Clients clients, ActiveMQConnection connection, ActiveMQSession session) throws Exception;
    }

    private static final Map<String, Attempt> ATTEMPTS = new LinkedHashMap<>();
    private static final long UNKNOWN = 777;

    private Refusals() {}

    static {
        connections();
        selectors();
        consumers();
        temporaries();
        transactions();
        acknowledgements();
        rawCommands();
    }

    static void run(Clients clients, String[] arguments, Observer observer) throws Exception {
        for (Map.Entry<String, Attempt> attempt : ATTEMPTS.entrySet()) {
            List<String> heard = new ArrayList<>();
            ActiveMQConnection connection = clients.connect();
            connection.setExceptionListener(exception -> {
                synchronized (heard) {
                    heard.add(plain(exception));
                }
            });
            ActiveMQSession session = (ActiveMQSession) Clients.session(connection);
            String outcome;
            try {
                Object answer = attempt.getValue().make(clients, connection, session);
                outcome = "no exception: " + (answer instanceof Command ? answer.getClass().getSimpleName() : answer);
            } catch (Throwable refusal) {
                outcome = plain(refusal);
            }
            boolean survives = survives(connection);
            synchronized (heard) {
                observer.see("case", attempt.getKey(), "outcome", outcome, "survives", survives, "heard", heard);
            }
            connection.close();
        }
    }

    /** Class and words, without what differs from run to run. */
    private static String plain(Throwable exception) {
        String text = exception.getClass().getName() + ": " + exception.getMessage();
        return text.replaceAll("ID:[\\w.-]+-\\d+-\\d+-\\d+:\\d+", "ID:<conn>")
                .replaceAll("tcp://[^\\s?]+:\\d+", "tcp://HOST:PORT");
    }

    private static boolean survives(ActiveMQConnection connection) {
        try {
            Clients.session(connection).createTemporaryTopic();
            return true;
        } catch (Exception broken) {
            return false;
        }
    }

    private static void connections() {
        ATTEMPTS.put("client id in use", (clients, connection, session) -> {
            ActiveMQConnection first = clients.open("jms.clientID=dup");
            first.start();
            ActiveMQConnection second = clients.open("jms.clientID=dup");
            second.start();
            return null;
        });
        ATTEMPTS.put("client id free again", (clients, connection, session) -> {
            ActiveMQConnection first = clients.open("jms.clientID=again");
            first.start();
            first.close();
            clients.open("jms.clientID=again").start();
            return null;
        });
        ATTEMPTS.put("any user", (clients, connection, session) -> {
            clients.open("jms.userName=anyone", "jms.password=anything").start();
            return null;
        });
    }

    private static void selectors() {
        String[] bad = {"i = = 1", "a = 'x", "a LIKE 5", "1 + 1", "a BETWEEN 1", "a IN ()", "", " ", "a = 1 AND", "(a = 1"};
        for (String selector : bad) {
            ATTEMPTS.put("selector " + selector, (clients, connection, session) -> {
                session.createConsumer(session.createQueue("SEL"), selector);
                return null;
            });
        }
        ATTEMPTS.put("selector of a browser", (clients, connection, session) -> {
            return session.createBrowser(session.createQueue("SEL"), "i = =").getEnumeration();
        });
        ATTEMPTS.put("selector that fails on a queue", (clients, connection, session) -> {
            Queue queue = session.createQueue("SEL.RUN");
            MessageConsumer consumer = session.createConsumer(queue, "flag + 1 = 2");
            sendFlag(session, queue);
            return Clients.receive(consumer, Clients.SILENCE_MS);
        });
        ATTEMPTS.put("selector that fails on a topic", (clients, connection, session) -> {
            ActiveMQTopic topic = new ActiveMQTopic("SEL.RUN");
            session.createConsumer(topic, "flag + 1 = 2");
            sendFlag(session, topic);
            return null;
        });
    }

    private static void sendFlag(Session session, ActiveMQDestination destination) throws Exception {
        Message message = session.createTextMessage("flagged");
        message.setBooleanProperty("flag", true);
        session.createProducer(destination).send(message);
    }

    private static void sendFlag(Session session, Queue queue) throws Exception {
        sendFlag(session, (ActiveMQDestination) queue);
    }

    private static void consumers() {
        ATTEMPTS.put("prefetch -1", (clients, connection, session) -> {
            session.createConsumer(session.createQueue("PF?consumer.prefetchSize=-1"));
            return null;
        });
        ATTEMPTS.put("prefetch beyond the cap", (clients, connection, session) -> {
            Queue queue = session.createQueue("PF.LARGE?consumer.prefetchSize=40000");
            return ((ActiveMQMessageConsumer) session.createConsumer(queue)).getPrefetchNumber();
        });
        ATTEMPTS.put("topic with prefetch 0", (clients, connection, session) -> {
            ActiveMQTopic topic = new ActiveMQTopic("PF.TOPIC?consumer.prefetchSize=0");
            return session.createConsumer(topic).receive(Clients.SILENCE_MS);
        });
        ATTEMPTS.put("browser on a topic", (clients, connection, session) -> {
            ConsumerInfo info = consumer(session, "BROWSE", 91);
            info.setDestination(new ActiveMQTopic("BROWSE"));
            info.setBrowser(true);
            return connection.syncSendPacket(info);
        });
        ATTEMPTS.put("send to a wildcard queue", (clients, connection, session) -> {
            Clients.send(session, session.createQueue("WILD.SEND.>"), "where to?");
            return null;
        });
    }

    private static void temporaries() {
        ATTEMPTS.put("send to another's deleted temporary queue, unwatched", (clients, connection, session) -> {
            TemporaryQueue queue = session.createTemporaryQueue();
            ActiveMQConnection other = clients.connect("jms.watchTopicAdvisories=false");
            Session sending = Clients.session(other);
            MessageProducer producer = sending.createProducer(null);
            producer.send(queue, sending.createTextMessage("in time"));
            queue.delete();
            producer.send(queue, sending.createTextMessage("too late"));
            return null;
        });
        ATTEMPTS.put("send after the owner has gone, unwatched", (clients, connection, session) -> {
            ActiveMQConnection owner = clients.connect();
            TemporaryQueue queue = Clients.session(owner).createTemporaryQueue();
            owner.close();
            Session sending = Clients.session(clients.connect("jms.watchTopicAdvisories=false"));
            sending.createProducer(null).send(queue, sending.createTextMessage("too late"));
            return null;
        });
        ATTEMPTS.put("consume another's temporary queue", (clients, connection, session) -> {
            TemporaryQueue queue = Clients.session(clients.connect()).createTemporaryQueue();
            session.createConsumer(queue);
            return null;
        });
        ATTEMPTS.put("consume another's temporary queue, raw", (clients, connection, session) -> {
            TemporaryQueue queue = Clients.session(clients.connect()).createTemporaryQueue();
            ConsumerInfo info = consumer(session, "", 92);
            info.setDestination((ActiveMQDestination) queue);
            return connection.syncSendPacket(info);
        });
        ATTEMPTS.put("delete a temporary queue in use", (clients, connection, session) -> {
            TemporaryQueue queue = session.createTemporaryQueue();
            session.createConsumer(queue);
            queue.delete();
            return null;
        });
        ATTEMPTS.put("delete another's temporary queue, raw", (clients, connection, session) -> {
            TemporaryQueue queue = Clients.session(clients.connect()).createTemporaryQueue();
            connection.destroyDestination((ActiveMQDestination) queue);
            return null;
        });
    }

    private static void transactions() {
        ATTEMPTS.put("commit of an unknown transaction", (clients, connection, session) ->
                connection.syncSendPacket(transaction(connection, UNKNOWN, TransactionInfo.COMMIT_ONE_PHASE)));
        ATTEMPTS.put("rollback of an unknown transaction", (clients, connection, session) ->
                connection.syncSendPacket(transaction(connection, UNKNOWN, TransactionInfo.ROLLBACK)));
        ATTEMPTS.put("commit twice", (clients, connection, session) -> {
            connection.syncSendPacket(transaction(connection, 778, TransactionInfo.BEGIN));
            connection.syncSendPacket(transaction(connection, 778, TransactionInfo.COMMIT_ONE_PHASE));
            return connection.syncSendPacket(transaction(connection, 778, TransactionInfo.COMMIT_ONE_PHASE));
        });
        ATTEMPTS.put("begin twice", (clients, connection, session) -> {
            connection.syncSendPacket(transaction(connection, 779, TransactionInfo.BEGIN));
            return connection.syncSendPacket(transaction(connection, 779, TransactionInfo.BEGIN));
        });
        ATTEMPTS.put("end of a local transaction", (clients, connection, session) -> {
            connection.syncSendPacket(transaction(connection, 780, TransactionInfo.BEGIN));
            return connection.syncSendPacket(transaction(connection, 780, TransactionInfo.END));
        });
        ATTEMPTS.put("unknown transaction type", (clients, connection, session) ->
                connection.syncSendPacket(transaction(connection, 781, (byte) 99)));
        ATTEMPTS.put("message of an unknown transaction", (clients, connection, session) -> {
            ActiveMQTextMessage message = message(connection, session);
            message.setTransactionId(new LocalTransactionId(connection.getConnectionInfo().getConnectionId(), UNKNOWN));
            return connection.syncSendPacket(message);
        });
    }

    private static void acknowledgements() {
        ATTEMPTS.put("acknowledge an unknown message", (clients, connection, session) ->
                connection.syncSendPacket(acknowledgement(session, MessageAck.STANDARD_ACK_TYPE, true)));
        ATTEMPTS.put("acknowledge an unknown message, individual", (clients, connection, session) ->
                connection.syncSendPacket(acknowledgement(session, MessageAck.INDIVIDUAL_ACK_TYPE, true)));
        ATTEMPTS.put("acknowledge for an unknown consumer", (clients, connection, session) ->
                connection.syncSendPacket(acknowledgement(session, MessageAck.STANDARD_ACK_TYPE, false)));
    }

    private static void rawCommands() {
        ATTEMPTS.put("producer of an unknown session", (clients, connection, session) -> {
            SessionId unknown = new SessionId(connection.getConnectionInfo().getConnectionId(), 999);
            ProducerInfo info = new ProducerInfo(new ProducerId(unknown, 1));
            info.setDestination(new ActiveMQQueue("RAWQ"));
            return connection.syncSendPacket(info);
        });
        ATTEMPTS.put("consumer of an unknown session", (clients, connection, session) -> {
            SessionId unknown = new SessionId(connection.getConnectionInfo().getConnectionId(), 999);
            ConsumerInfo info = new ConsumerInfo(new ConsumerId(unknown, 1));
            info.setDestination(new ActiveMQQueue("RAWQ"));
            return connection.syncSendPacket(info);
        });
        ATTEMPTS.put("consumer twice", (clients, connection, session) -> {
            connection.syncSendPacket(consumer(session, "RAWQ", 93));
            return connection.syncSendPacket(consumer(session, "RAWQ", 93));
        });
        ATTEMPTS.put("session twice", (clients, connection, session) -> {
            SessionInfo info = new SessionInfo(connection.getConnectionInfo(), 555);
            connection.syncSendPacket(info);
            return connection.syncSendPacket(info);
        });
        ATTEMPTS.put("remove an unknown consumer", (clients, connection, session) ->
                connection.syncSendPacket(new RemoveInfo(new ConsumerId(sessionId(session), 666))));
        ATTEMPTS.put("remove an unknown producer", (clients, connection, session) ->
                connection.syncSendPacket(new RemoveInfo(new ProducerId(sessionId(session), 666))));
        ATTEMPTS.put("remove an unknown session", (clients, connection, session) -> {
            ConnectionInfo info = connection.getConnectionInfo();
            return connection.syncSendPacket(new RemoveInfo(new SessionId(info.getConnectionId(), 666)));
        });
        ATTEMPTS.put("message of an unknown producer", (clients, connection, session) -> {
            ActiveMQTextMessage message = message(connection, session);
            message.setProducerId(new ProducerId(sessionId(session), 666));
            message.setMessageId(new MessageId(message.getProducerId(), 1));
            return connection.syncSendPacket(message);
        });
        ATTEMPTS.put("destroy a queue in use", (clients, connection, session) -> {
            session.createConsumer(session.createQueue("INUSE"));
            connection.destroyDestination(new ActiveMQQueue("INUSE"));
            return null;
        });
        ATTEMPTS.put("destroy an unknown queue", (clients, connection, session) -> {
            connection.destroyDestination(new ActiveMQQueue("NOBODY.KNOWS"));
            return null;
        });
        ATTEMPTS.put("remove an unknown subscription", (clients, connection, session) -> {
            RemoveSubscriptionInfo info = new RemoveSubscriptionInfo();
            info.setConnectionId(connection.getConnectionInfo().getConnectionId());
            info.setClientId(connection.getClientID());
            info.setSubscriptionName("nope");
            return connection.syncSendPacket(info);
        });
    }

    private static TransactionInfo transaction(ActiveMQConnection connection, long number, byte type) {
        ConnectionInfo info = connection.getConnectionInfo();
        return new TransactionInfo(
                info.getConnectionId(), new LocalTransactionId(info.getConnectionId(), number), type);
    }

    private static SessionId sessionId(ActiveMQSession session) throws Exception {
        Queue queue = session.createQueue("ANY");
        ActiveMQMessageConsumer consumer = (ActiveMQMessageConsumer) session.createConsumer(queue);
        consumer.close();
        return consumer.getConsumerId().getParentId();
    }

    private static ConsumerInfo consumer(ActiveMQSession session, String queue, long number) throws Exception {
        ConsumerInfo info = new ConsumerInfo(new ConsumerId(sessionId(session), number));
        info.setPrefetchSize(1);
        if (!queue.isEmpty()) {
            info.setDestination(new ActiveMQQueue(queue));
        }
        return info;
    }

    private static ActiveMQTextMessage message(ActiveMQConnection connection, ActiveMQSession session)
            throws Exception {
        ProducerInfo producer = new ProducerInfo(new ProducerId(sessionId(session), 94));
        producer.setDestination(new ActiveMQQueue("RAWQ"));
        connection.syncSendPacket(producer);
        ActiveMQTextMessage message = new ActiveMQTextMessage();
        message.setText("raw");
        message.setDestination(new ActiveMQQueue("RAWQ"));
        message.setProducerId(producer.getProducerId());
        message.setMessageId(new MessageId(producer.getProducerId(), 1));
        return message;
    }

    private static MessageAck acknowledgement(ActiveMQSession session, byte type, boolean known) throws Exception {
        ActiveMQQueue queue = new ActiveMQQueue("ACKED");
        ActiveMQMessageConsumer consumer = (ActiveMQMessageConsumer) session.createConsumer(queue);
        MessageDispatch dispatch = new MessageDispatch();
        dispatch.setDestination(queue);
        dispatch.setConsumerId(known ? consumer.getConsumerId() : new ConsumerId(sessionId(session), 888));
        ActiveMQTextMessage message = new ActiveMQTextMessage();
        message.setMessageId(new MessageId(new ProducerId(sessionId(session), 1), 4711));
        dispatch.setMessage(message);
        MessageAck acknowledgement = new MessageAck(dispatch, type, 1);
        acknowledgement.setFirstMessageId(message.getMessageId());
        return acknowledgement;
    }
}
