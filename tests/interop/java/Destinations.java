import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import javax.jms.Connection;
import javax.jms.DeliveryMode;
import javax.jms.Destination;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Queue;
import javax.jms.Session;
import javax.jms.TemporaryQueue;
import javax.jms.TemporaryTopic;
import javax.jms.TextMessage;
import javax.jms.Topic;
import org.apache.activemq.ActiveMQConnection;
import org.apache.activemq.command.ActiveMQDestination;

/** Topics, temporary destinations, composites, wildcards; expiry and priority on the way. */
final class Destinations {
    /** A life that is not over before the message has arrived, on a slow machine either. */
    private static final long SHORT_MS = 500;

    private Destinations() {}

    static void register(Map<String, Interop.Scenario> scenarios) {
        scenarios.put("topic", Destinations::topic);
        scenarios.put("no-local", Destinations::noLocal);
        scenarios.put("request-and-reply", Destinations::requestAndReply);
        scenarios.put("ask", Destinations::ask);
        scenarios.put("temporary-topic", Destinations::temporaryTopic);
        scenarios.put("composite", Destinations::composite);
        scenarios.put("composite-consumer", Destinations::compositeConsumer);
        scenarios.put("wildcard-queues", Destinations::wildcardQueues);
        scenarios.put("wildcard-topics", Destinations::wildcardTopics);
        scenarios.put("expiry", Destinations::expiry);
        scenarios.put("priority", Destinations::priority);
        scenarios.put("names", Destinations::names);
    }

    /** Every subscriber gets what is sent while it is there; selectors hold for each. */
    private static void topic(Clients clients, String[] arguments, Observer observer) throws Exception {
        Session session = Clients.session(clients.connect());
        Topic topic = session.createTopic("TOPIC.FAN");
        Clients.send(session, topic, "too early");
        List<MessageConsumer> subscribers = new ArrayList<>();
        for (int i = 0; i < 4; i++) {
            subscribers.add(Clients.session(clients.connect()).createConsumer(topic));
        }
        MessageConsumer selecting = Clients.session(clients.connect()).createConsumer(topic, "number > 8");
        Clients.sendNumbered(session, topic, 10);
        for (MessageConsumer subscriber : subscribers) {
            observer.see("got", Clients.receiveAll(subscriber, 10));
        }
        observer.see("selected", Clients.receiveAll(selecting, 2));
        subscribers.get(0).close();
        Clients.send(session, topic, "last");
        observer.see("got", Clients.receiveAll(subscribers.get(1), 1));
    }

    private static void noLocal(Clients clients, String[] arguments, Observer observer) throws Exception {
        Connection connection = clients.connect();
        Session session = Clients.session(connection);
        Session other = Clients.session(clients.connect());
        Topic topic = session.createTopic("TOPIC.NO.LOCAL");
        MessageConsumer consumer = session.createConsumer(topic, null, true);
        Clients.send(session, topic, "mine");
        Clients.send(other, topic, "yours");
        observer.see("got", Clients.receiveAll(consumer, 1));
    }

    private static void requestAndReply(Clients clients, String[] arguments, Observer observer) throws Exception {
        Session server = Clients.session(clients.connect());
        Queue requests = server.createQueue("REQUESTS");
        MessageProducer replies = server.createProducer(null);
        server.createConsumer(requests).setMessageListener(message -> {
            try {
                TextMessage reply = server.createTextMessage("re: " + Clients.text(message));
                reply.setJMSCorrelationID(message.getJMSCorrelationID());
                replies.send(message.getJMSReplyTo(), reply);
            } catch (Exception failure) {
                throw new IllegalStateException(failure);
            }
        });
        ActiveMQConnection connection = clients.connect();
        Session client = Clients.session(connection);
        TemporaryQueue temporary = client.createTemporaryQueue();
        MessageConsumer answers = client.createConsumer(temporary);
        MessageProducer producer = client.createProducer(requests);
        for (int i = 0; i < 5; i++) {
            TextMessage request = client.createTextMessage("question " + i);
            request.setJMSReplyTo(temporary);
            request.setJMSCorrelationID("c" + i);
            producer.send(request);
            Message answer = answers.receive(Clients.PATIENCE_MS);
            observer.see("answer", Clients.text(answer), "correlation", answer.getJMSCorrelationID());
        }
        answers.close();
        temporary.delete();
        observer.see("deleted", connection.isDeleted((ActiveMQDestination) temporary));
    }

    /** A question to a queue that another kind of client answers. */
    private static void ask(Clients clients, String[] arguments, Observer observer) throws Exception {
        Session session = Clients.session(clients.connect());
        TemporaryQueue temporary = session.createTemporaryQueue();
        MessageConsumer answers = session.createConsumer(temporary);
        TextMessage question = session.createTextMessage("how much?");
        question.setJMSReplyTo(temporary);
        question.setJMSCorrelationID("c-1");
        session.createProducer(session.createQueue(arguments[0])).send(question);
        observer.await("answer");
        Message answer = answers.receive(Clients.PATIENCE_MS);
        observer.see("answer", Clients.text(answer), "correlation", answer.getJMSCorrelationID());
    }

    private static void temporaryTopic(Clients clients, String[] arguments, Observer observer) throws Exception {
        Session session = Clients.session(clients.connect());
        TemporaryTopic topic = session.createTemporaryTopic();
        MessageConsumer first = session.createConsumer(topic);
        MessageConsumer second = session.createConsumer(topic);
        // A client that watches temporary destinations may not have heard of this one yet.
        Clients.send(Clients.session(clients.connect("jms.watchTopicAdvisories=false")), topic, "a", "b");
        observer.see("first", Clients.receiveAll(first, 2), "second", Clients.receiveAll(second, 2));
    }

    /** One send, many destinations; the copies know where they went and where they were sent. */
    private static void composite(Clients clients, String[] arguments, Observer observer) throws Exception {
        Session session = Clients.session(clients.connect());
        MessageConsumer topic = session.createConsumer(session.createTopic("COMPOSITE.TOPIC"));
        Clients.send(session, session.createQueue("COMPOSITE.A,COMPOSITE.B,topic://COMPOSITE.TOPIC"), "copied");
        MessageConsumer a = session.createConsumer(session.createQueue("COMPOSITE.A"));
        MessageConsumer b = session.createConsumer(session.createQueue("COMPOSITE.B"));
        for (MessageConsumer consumer : List.of(a, b, topic)) {
            observer.see("copy", Messages.describe(consumer.receive(Clients.PATIENCE_MS)));
        }
    }

    private static void compositeConsumer(Clients clients, String[] arguments, Observer observer) throws Exception {
        Session session = Clients.session(clients.connect());
        MessageConsumer consumer = session.createConsumer(session.createQueue("FROM.A,FROM.B"));
        Clients.send(session, session.createQueue("FROM.A"), "a");
        observer.see("got", Clients.receive(consumer, Clients.PATIENCE_MS));
        Clients.send(session, session.createQueue("FROM.B"), "b");
        observer.see("got", Clients.receive(consumer, Clients.PATIENCE_MS));
    }

    /** {@code *} is one name, {@code >} all that follow; destinations that come later count, too. */
    private static void wildcardQueues(Clients clients, String[] arguments, Observer observer) throws Exception {
        Session session = Clients.session(clients.connect());
        Clients.send(session, session.createQueue("WILD.Q.A"), "before");
        MessageConsumer star = session.createConsumer(session.createQueue("WILD.Q.*"));
        observer.see("got", Clients.receive(star, Clients.PATIENCE_MS));
        Clients.send(session, session.createQueue("WILD.Q.B"), "new queue");
        observer.see("got", Clients.receive(star, Clients.PATIENCE_MS));
        Clients.send(session, session.createQueue("WILD.Q.A.DEEP"), "deeper");
        observer.see("not for the star", Clients.receive(star, Clients.SILENCE_MS));
        star.close();
        Message message = session.createConsumer(session.createQueue("WILD.Q.>")).receive(Clients.PATIENCE_MS);
        observer.see("got", Clients.text(message), "destination", message.getJMSDestination().toString());
    }

    private static void wildcardTopics(Clients clients, String[] arguments, Observer observer) throws Exception {
        Session session = Clients.session(clients.connect());
        String[] patterns = {"WILD.T.*", "WILD.T.>", "WILD.*.A", "WILD.>", "*.T.A.DEEP", "WILD.T"};
        List<MessageConsumer> consumers = new ArrayList<>();
        for (String pattern : patterns) {
            consumers.add(session.createConsumer(session.createTopic(pattern)));
        }
        for (String name : new String[] {"WILD.T", "WILD.T.A", "WILD.T.B", "WILD.T.A.DEEP", "WILD.U.A"}) {
            Clients.send(session, session.createTopic(name), name);
        }
        // One of them is for each pattern.
        for (String name : new String[] {"WILD.T", "WILD.T.A", "WILD.T.A.DEEP"}) {
            Clients.send(session, session.createTopic(name), Clients.LAST);
        }
        for (int i = 0; i < patterns.length; i++) {
            observer.see("pattern", patterns[i], "got", Clients.receiveUntilLast(consumers.get(i)));
        }
    }

    /** What has expired is not delivered; persistent messages become dead letters then. */
    private static void expiry(Clients clients, String[] arguments, Observer observer) throws Exception {
        Session session = Clients.session(clients.connect());
        Queue queue = session.createQueue("EXPIRY");
        MessageProducer producer = session.createProducer(queue);
        Message expiring = Clients.marked(session, "EXPIRY", "expires");
        producer.send(expiring, DeliveryMode.PERSISTENT, 4, SHORT_MS);
        Message vanishing = Clients.marked(session, "EXPIRY", "vanishes");
        producer.send(vanishing, DeliveryMode.NON_PERSISTENT, 4, SHORT_MS);
        producer.send(session.createTextMessage("stays"), DeliveryMode.PERSISTENT, 4, 600_000);
        // The one sent later expires later.
        while (System.currentTimeMillis() <= vanishing.getJMSExpiration() + 10) {
            Thread.sleep(2);
        }
        MessageConsumer consumer = session.createConsumer(queue);
        observer.see("got", Clients.receiveAll(consumer, 1));
        MessageConsumer dead = Clients.deadLetters(session, "EXPIRY");
        Message letter = dead.receive(Clients.PATIENCE_MS);
        observer.see("dead letter", Messages.describe(letter));
        observer.see("more dead letters", Clients.moreDeadLetters(session, dead, "EXPIRY"));
    }

    /** Priorities are kept; without prioritizedMessages they do not change the order in which the broker dispatches. */
    private static void priority(Clients clients, String[] arguments, Observer observer) throws Exception {
        Session session = Clients.session(clients.connect());
        Queue queue = session.createQueue("PRIORITY");
        MessageConsumer consumer = session.createConsumer(queue);
        MessageProducer producer = session.createProducer(queue);
        for (int priority : new int[] {1, 9, 0, 4}) {
            producer.send(session.createTextMessage("p" + priority), DeliveryMode.NON_PERSISTENT, priority, 0);
            Message message = consumer.receive(Clients.PATIENCE_MS);
            observer.see("text", Clients.text(message), "priority", message.getJMSPriority());
        }
    }

    private static void names(Clients clients, String[] arguments, Observer observer) throws Exception {
        Session session = Clients.session(clients.connect());
        for (String name : new String[] {"a b", "Zürich/東京", "x?consumer.priority=3", "with-dash_and:colon", "...", "Q.", "q"}) {
            Destination queue = session.createQueue(name);
            MessageConsumer consumer = session.createConsumer(queue);
            Clients.send(session, queue, name);
            Message message = consumer.receive(Clients.PATIENCE_MS);
            observer.see("name", name, "destination", String.valueOf(message.getJMSDestination()));
            consumer.close();
        }
    }
}
