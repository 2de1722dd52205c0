import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import javax.jms.Connection;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Queue;
import javax.jms.Session;
import javax.jms.TextMessage;
import org.apache.activemq.ActiveMQConnection;
import org.apache.activemq.ActiveMQSession;

/** What acknowledging, committing and rolling back do to the messages of a queue. */
final class Sessions {
    private static final String QUICK_REDELIVERY =
            "jms.redeliveryPolicy.initialRedeliveryDelay=1&jms.redeliveryPolicy.redeliveryDelay=1";
    private static final int MAXIMUM_REDELIVERIES = 6;

    private Sessions() {}

    static void register(Map<String, Interop.Scenario> scenarios) {
        scenarios.put("auto", (clients, arguments, observer) -> automatic(clients, observer, Session.AUTO_ACKNOWLEDGE));
        scenarios.put(
                "dups-ok", (clients, arguments, observer) -> automatic(clients, observer, Session.DUPS_OK_ACKNOWLEDGE));
        scenarios.put("client", Sessions::client);
        scenarios.put("client-recover", Sessions::recover);
        scenarios.put("individual", Sessions::individual);
        scenarios.put("commit", Sessions::commit);
        scenarios.put("rollback-of-sends", Sessions::rollbackOfSends);
        scenarios.put("rollback-of-receives", Sessions::rollbackOfReceives);
        scenarios.put("dead-letters", Sessions::deadLetters);
        scenarios.put("dead-letters-rolled-back", Sessions::listenerThatFails);
        scenarios.put("close-without-commit", Sessions::closeWithoutCommit);
        scenarios.put("consumer-gone", Sessions::consumerGone);
        scenarios.put("connection-gone", Sessions::connectionGone);
        scenarios.put("order-of-redelivery", Sessions::orderOfRedelivery);
    }

    /** Acknowledged one by one or in bunches: after closing nothing is left. */
    private static void automatic(Clients clients, Observer observer, int mode) throws Exception {
        Connection connection = clients.connect();
        Session session = connection.createSession(false, mode);
        Queue queue = session.createQueue("SESSIONS.AUTO." + mode);
        Clients.sendNumbered(session, queue, 20);
        MessageConsumer consumer = session.createConsumer(queue);
        for (int i = 0; i < 10; i++) {
            see(observer, consumer.receive(Clients.PATIENCE_MS));
        }
        consumer.close();
        observer.see("left", Clients.receiveAll(session.createConsumer(queue), 10));
        session.close();
        Session other = Clients.session(connection);
        observer.see("left at last", Clients.receive(other.createConsumer(queue), Clients.SILENCE_MS));
    }

    /** acknowledge() of one message acknowledges all that the session has received. */
    private static void client(Clients clients, String[] arguments, Observer observer) throws Exception {
        Connection connection = clients.connect();
        Session session = connection.createSession(false, Session.CLIENT_ACKNOWLEDGE);
        Queue queue = session.createQueue("SESSIONS.CLIENT");
        Clients.sendNumbered(session, queue, 6);
        MessageConsumer consumer = session.createConsumer(queue);
        List<Message> received = receive(observer, consumer, 4);
        received.get(1).acknowledge();
        receive(observer, consumer, 2);
        session.close();
        Session other = Clients.session(connection);
        receive(observer, other.createConsumer(queue), 2);
        observer.see("left", Clients.receive(other.createConsumer(queue), Clients.SILENCE_MS));
    }

    /** recover() delivers again what was not acknowledged, counted and in order. */
    private static void recover(Clients clients, String[] arguments, Observer observer) throws Exception {
        Connection connection = clients.connect(QUICK_REDELIVERY);
        Session session = connection.createSession(false, Session.CLIENT_ACKNOWLEDGE);
        Queue queue = session.createQueue("SESSIONS.RECOVER");
        Clients.sendNumbered(session, queue, 4);
        MessageConsumer consumer = session.createConsumer(queue);
        receive(observer, consumer, 3);
        session.recover();
        List<Message> again = receive(observer, consumer, 4);
        again.get(3).acknowledge();
        observer.see("left", Clients.receive(consumer, Clients.SILENCE_MS));
    }

    /** Each message for itself. */
    private static void individual(Clients clients, String[] arguments, Observer observer) throws Exception {
        Connection connection = clients.connect();
        Session session = connection.createSession(false, ActiveMQSession.INDIVIDUAL_ACKNOWLEDGE);
        Queue queue = session.createQueue("SESSIONS.INDIVIDUAL");
        Clients.sendNumbered(session, queue, 5);
        MessageConsumer consumer = session.createConsumer(queue);
        List<Message> received = receive(observer, consumer, 5);
        received.get(1).acknowledge();
        received.get(3).acknowledge();
        session.close();
        receive(observer, Clients.session(connection).createConsumer(queue), 3);
    }

    private static void commit(Clients clients, String[] arguments, Observer observer) throws Exception {
        Connection connection = clients.connect();
        Session transacted = connection.createSession(true, Session.SESSION_TRANSACTED);
        Queue queue = transacted.createQueue("SESSIONS.COMMIT");
        Queue second = transacted.createQueue("SESSIONS.COMMIT.2");
        MessageConsumer outside = Clients.session(connection).createConsumer(queue);
        Clients.send(transacted, queue, "a", "b");
        observer.see("before the commit", Clients.receive(outside, Clients.SILENCE_MS));
        transacted.commit();
        observer.see("after the commit", Clients.receiveAll(outside, 2));
        outside.close();
        Clients.send(transacted, queue, "c");
        transacted.commit();
        MessageConsumer inside = transacted.createConsumer(queue);
        observer.see("received", Clients.receive(inside, Clients.PATIENCE_MS));
        Clients.send(transacted, second, "d");
        transacted.commit();
        transacted.close();
        Session after = Clients.session(connection);
        observer.see("moved", Clients.receiveAll(after.createConsumer(second), 1));
        observer.see("left", Clients.receive(after.createConsumer(queue), Clients.SILENCE_MS));
    }

    private static void rollbackOfSends(Clients clients, String[] arguments, Observer observer) throws Exception {
        Connection connection = clients.connect();
        Session transacted = connection.createSession(true, Session.SESSION_TRANSACTED);
        Queue queue = transacted.createQueue("SESSIONS.ROLLBACK.SENDS");
        Clients.send(transacted, queue, "never");
        transacted.rollback();
        Clients.send(transacted, queue, "later");
        transacted.commit();
        observer.see("sent", Clients.receiveAll(Clients.session(connection).createConsumer(queue), 1));
    }

    private static void rollbackOfReceives(Clients clients, String[] arguments, Observer observer) throws Exception {
        Connection connection = clients.connect(QUICK_REDELIVERY);
        Session transacted = connection.createSession(true, Session.SESSION_TRANSACTED);
        Queue queue = transacted.createQueue("SESSIONS.ROLLBACK");
        Clients.sendNumbered(transacted, queue, 5);
        transacted.commit();
        MessageConsumer consumer = transacted.createConsumer(queue);
        for (int round = 0; round < 3; round++) {
            receive(observer, consumer, 3);
            transacted.rollback();
        }
        receive(observer, consumer, 5);
        transacted.commit();
        observer.see("left", Clients.receive(consumer, Clients.SILENCE_MS));
    }

    /** One delivery and six redeliveries, then the queue for dead letters. */
    private static void deadLetters(Clients clients, String[] arguments, Observer observer) throws Exception {
        Connection connection = clients.connect(QUICK_REDELIVERY);
        Session transacted = connection.createSession(true, Session.SESSION_TRANSACTED);
        Queue queue = transacted.createQueue("SESSIONS.DEAD");
        Clients.sendMarked(transacted, queue, "SESSIONS.DEAD", "poison", "good");
        transacted.commit();
        MessageConsumer consumer = transacted.createConsumer(queue);
        for (int delivery = 0; delivery <= MAXIMUM_REDELIVERIES; delivery++) {
            see(observer, consumer.receive(Clients.PATIENCE_MS));
            transacted.rollback();
        }
        see(observer, consumer.receive(Clients.PATIENCE_MS));
        transacted.commit();
        Session session = Clients.session(connection);
        MessageConsumer dead = Clients.deadLetters(session, "SESSIONS.DEAD");
        Message letter = dead.receive(Clients.PATIENCE_MS);
        observer.see("dead letter", Messages.describe(letter), "redelivered", letter.getJMSRedelivered());
        observer.see("left", Clients.receive(consumer, Clients.SILENCE_MS));
        observer.see("more dead letters", Clients.moreDeadLetters(session, dead, "SESSIONS.DEAD"));
    }

    /**
     * A listener that throws each time: auto-acknowledge, redelivered by the client, dead at last. The client gives the
     * message up after its last delivery, so once the dead letter is here all the deliveries are counted.
     */
    private static void listenerThatFails(Clients clients, String[] arguments, Observer observer) throws Exception {
        Connection connection = clients.connect(QUICK_REDELIVERY);
        Session session = Clients.session(connection);
        Queue queue = session.createQueue("SESSIONS.LISTENER");
        Clients.sendMarked(session, queue, "SESSIONS.LISTENER", "refused");
        List<Object> counts = new ArrayList<>();
        session.createConsumer(queue).setMessageListener(message -> {
            try {
                synchronized (counts) {
                    counts.add(message.getIntProperty("JMSXDeliveryCount"));
                }
            } catch (Exception impossible) {
                throw new IllegalStateException(impossible);
            }
            throw new IllegalArgumentException("the listener refuses");
        });
        Session other = Clients.session(connection);
        MessageConsumer dead = Clients.deadLetters(other, "SESSIONS.LISTENER");
        observer.see("dead letter", Clients.receive(dead, Clients.PATIENCE_MS));
        synchronized (counts) {
            observer.see("delivery counts", new ArrayList<>(counts));
        }
    }

    private static void closeWithoutCommit(Clients clients, String[] arguments, Observer observer) throws Exception {
        Connection connection = clients.connect();
        Session transacted = connection.createSession(true, Session.SESSION_TRANSACTED);
        Queue queue = transacted.createQueue("SESSIONS.UNCOMMITTED");
        Clients.sendNumbered(transacted, queue, 3);
        transacted.commit();
        receive(observer, transacted.createConsumer(queue), 2);
        Clients.send(transacted, queue, "never");
        transacted.close();
        Session session = Clients.session(connection);
        receive(observer, session.createConsumer(queue), 3);
        observer.see("left", Clients.receive(session.createConsumer(queue), Clients.SILENCE_MS));
    }

    /** What a closed consumer had not acknowledged goes to another one. */
    private static void consumerGone(Clients clients, String[] arguments, Observer observer) throws Exception {
        Connection connection = clients.connect();
        Session first = connection.createSession(false, Session.CLIENT_ACKNOWLEDGE);
        Queue queue = first.createQueue("SESSIONS.GONE");
        Clients.sendNumbered(first, queue, 5);
        MessageConsumer consumer = first.createConsumer(queue);
        receive(observer, consumer, 2);
        MessageConsumer other = Clients.session(connection).createConsumer(queue);
        observer.see("before the close", Clients.receive(other, Clients.SILENCE_MS));
        first.close();
        receive(observer, other, 5);
    }

    /** The same for a connection that breaks without a word. */
    private static void connectionGone(Clients clients, String[] arguments, Observer observer) throws Exception {
        ActiveMQConnection broken = clients.connect();
        Session first = broken.createSession(false, Session.CLIENT_ACKNOWLEDGE);
        Queue queue = first.createQueue("SESSIONS.BROKEN");
        Clients.sendNumbered(first, queue, 4);
        receive(observer, first.createConsumer(queue), 2);
        broken.getTransport().narrow(java.net.Socket.class).close();
        receive(observer, Clients.session(clients.connect()).createConsumer(queue), 4);
    }

    /** Rolled back messages come before those that were never delivered, also for another consumer. */
    private static void orderOfRedelivery(Clients clients, String[] arguments, Observer observer) throws Exception {
        Connection connection = clients.connect("jms.prefetchPolicy.all=2");
        Session transacted = connection.createSession(true, Session.SESSION_TRANSACTED);
        Queue queue = transacted.createQueue("SESSIONS.ORDER");
        Clients.sendNumbered(transacted, queue, 6);
        transacted.commit();
        MessageConsumer consumer = transacted.createConsumer(queue);
        receive(observer, consumer, 2);
        transacted.rollback();
        consumer.close();
        receive(observer, Clients.session(connection).createConsumer(queue), 6);
    }

    private static List<Message> receive(Observer observer, MessageConsumer consumer, int count) throws Exception {
        List<Message> received = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            Message message = consumer.receive(Clients.PATIENCE_MS);
            see(observer, message);
            received.add(message);
        }
        return received;
    }

    private static void see(Observer observer, Message message) throws Exception {
        if (message == null) {
            throw new IllegalStateException("no message came within " + Clients.PATIENCE_MS + " ms");
        }
        observer.see(
                "text", ((TextMessage) message).getText(),
                "redelivered", message.getJMSRedelivered(),
                "count", message.getIntProperty("JMSXDeliveryCount"));
    }
}
