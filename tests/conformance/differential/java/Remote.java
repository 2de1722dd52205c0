import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Enumeration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import javax.jms.BytesMessage;
import javax.jms.Connection;
import javax.jms.DeliveryMode;
import javax.jms.Destination;
import javax.jms.JMSException;
import javax.jms.MapMessage;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.ObjectMessage;
import javax.jms.Queue;
import javax.jms.QueueBrowser;
import javax.jms.Session;
import javax.jms.StreamMessage;
import javax.jms.TextMessage;
import javax.jms.Topic;
import javax.jms.XASession;
import javax.transaction.xa.XAException;
import javax.transaction.xa.XAResource;
import javax.transaction.xa.Xid;
import org.apache.activemq.ActiveMQConnection;
import org.apache.activemq.ActiveMQConnectionFactory;
import org.apache.activemq.ActiveMQMessageProducer;
import org.apache.activemq.ActiveMQSession;
import org.apache.activemq.ActiveMQXAConnectionFactory;
import org.apache.activemq.command.ActiveMQBytesMessage;
import org.apache.activemq.command.ActiveMQDestination;
import org.apache.activemq.command.ActiveMQMessage;
import org.apache.activemq.command.Command;
import org.apache.activemq.command.ConsumerId;
import org.apache.activemq.command.ConsumerInfo;
import org.apache.activemq.command.DataArrayResponse;
import org.apache.activemq.command.DataStructure;
import org.apache.activemq.command.FlushCommand;
import org.apache.activemq.command.IntegerResponse;
import org.apache.activemq.command.LocalTransactionId;
import org.apache.activemq.command.MessageAck;
import org.apache.activemq.command.MessageDispatch;
import org.apache.activemq.command.MessageId;
import org.apache.activemq.command.ProducerId;
import org.apache.activemq.command.ProducerInfo;
import org.apache.activemq.command.RemoveInfo;
import org.apache.activemq.command.RemoveSubscriptionInfo;
import org.apache.activemq.command.Response;
import org.apache.activemq.command.SessionId;
import org.apache.activemq.command.SessionInfo;
import org.apache.activemq.command.TransactionId;
import org.apache.activemq.command.TransactionInfo;
import org.apache.activemq.command.XATransactionId;

/**
 * ActiveMQ's JMS client under remote control. Reads requests, one JSON object a line: {"do": "receive", "consumer":
 * "k1", "timeout": 500}; what they make stays here under the name in "as". Answers each with one line, {"result": …} or
 * {"error": class, "text": …, "code": …}, and {"done": true}. Decides nothing and compares nothing.
 */
public final class Remote {
    private static final long UNTIL_QUIET_MS = 40;
    private static final int QUIET_LOOKS = 50;
    private static final int FLUSH_TIMEOUT_MS = 30_000;

    private final Map<String, Object> objects = new LinkedHashMap<>();
    private final Map<String, List<String>> heard = new LinkedHashMap<>();

    public static void main(String[] ignored) throws Exception {
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        Remote remote = new Remote();
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            Map<String, Object> answer = new LinkedHashMap<>();
            try {
                answer.put("result", remote.act(new Request(new Json(line).object())));
            } catch (Throwable thrown) {
                Throwable failure = thrown instanceof InvocationTargetException ? thrown.getCause() : thrown;
                answer.put("error", failure.getClass().getName());
                answer.put("text", failure.getMessage());
                if (failure instanceof XAException) {
                    answer.put("code", (long) ((XAException) failure).errorCode);
                }
            }
            out.println(Json.text(answer));
            out.println("{\"done\": true}");
            out.flush();
        }
        System.exit(0);
    }

    private Object act(Request request) throws Exception {
        String what = request.text("do");
        if (what.startsWith("xa_")) {
            return xa(request);
        }
        if (what.startsWith("raw_")) {
            return raw(request);
        }
        switch (what) {
            case "connect":
                return connect(request);
            case "session":
                return keep(request, session(request));
            case "producer":
                return keep(request, of(request, "session", Session.class).createProducer(destination(request, "to")));
            case "consumer":
                return keep(request, of(request, "session", Session.class).createConsumer(
                        destination(request, "to"), request.text("selector"), request.flag("noLocal")));
            case "subscriber":
                return keep(request, of(request, "session", Session.class).createDurableSubscriber(
                        (Topic) destination(request, "to"), request.text("name"), request.text("selector"),
                        request.flag("noLocal")));
            case "temporary":
                return temporary(request);
            case "send":
                return send(request);
            case "receive":
                return receive(request);
            case "listen":
                return listen(request);
            case "heard":
                return waitForHeard(request);
            case "browse":
                return browse(request);
            case "counters":
                return counters(request);
            default:
                return control(request, what);
        }
    }

    private Object control(Request request, String what) throws Exception {
        Object target = objects.get(request.text("on"));
        switch (what) {
            case "start":
                ((Connection) target).start();
                return null;
            case "stop":
                ((Connection) target).stop();
                return null;
            case "client_id":
                ((Connection) target).setClientID(request.text("id"));
                return null;
            case "die":
                ((ActiveMQConnection) target).getTransport().stop();
                return null;
            case "destroy":
                ((ActiveMQConnection) target).destroyDestination((ActiveMQDestination) destination(request, "to"));
                return null;
            case "survives":
                ((Connection) target).createSession(false, Session.AUTO_ACKNOWLEDGE).createTemporaryTopic();
                return true;
            case "delete":
                ((ActiveMQConnection) of(request, "on", Connection.class)).deleteTempDestination(
                        (org.apache.activemq.command.ActiveMQTempDestination) destination(request, "to"));
                return null;
            case "delete_own":
                target.getClass().getMethod("delete").invoke(target);
                return null;
            case "commit":
                ((Session) target).commit();
                return null;
            case "rollback":
                ((Session) target).rollback();
                return null;
            case "recover":
                ((Session) target).recover();
                return null;
            case "unsubscribe":
                ((Session) target).unsubscribe(request.text("name"));
                return null;
            case "acknowledge":
                ((Message) target).acknowledge();
                return null;
            case "acknowledge_individually":
                ((ActiveMQMessage) target).acknowledge();
                return null;
            case "close":
                target.getClass().getMethod("close").invoke(target);
                return null;
            case "flush":
                flush();
                return null;
            case "forget_all":
                closeAll();
                return null;
            default:
                throw new IllegalArgumentException("no request " + what);
        }
    }

    /** Waits until the broker has answered each connection that is still there. */
    private void flush() {
        for (Object object : objects.values()) {
            if (object instanceof ActiveMQConnection && ((ActiveMQConnection) object).isStarted()) {
                try {
                    ((ActiveMQConnection) object).syncSendPacket(new FlushCommand(), FLUSH_TIMEOUT_MS);
                } catch (JMSException | RuntimeException gone) {
                    // Its broker or its transport is no more.
                }
            }
        }
    }

    private Object connect(Request request) throws Exception {
        ActiveMQConnectionFactory factory = request.flag("xa")
                ? new ActiveMQXAConnectionFactory(request.text("uri")) : new ActiveMQConnectionFactory(request.text("uri"));
        factory.setTrustAllPackages(true);
        String user = request.text("user");
        ActiveMQConnection connection = (ActiveMQConnection) (request.flag("xa")
                ? ((ActiveMQXAConnectionFactory) factory).createXAConnection(user, request.text("password"))
                : factory.createConnection(user, request.text("password")));
        keep(request, connection);
        List<String> exceptions = Collections.synchronizedList(new ArrayList<>());
        heard.put(request.text("as"), exceptions);
        connection.setExceptionListener(exception -> exceptions.add(
                exception.getClass().getName() + ": " + exception.getMessage()));
        if (request.text("clientId") != null) {
            connection.setClientID(request.text("clientId"));
        }
        if (!request.flag("stopped")) {
            connection.start();
        }
        return null;
    }

    private Session session(Request request) throws Exception {
        ActiveMQConnection connection = of(request, "connection", ActiveMQConnection.class);
        switch (request.text("mode")) {
            case "client":
                return connection.createSession(false, Session.CLIENT_ACKNOWLEDGE);
            case "dups_ok":
                return connection.createSession(false, Session.DUPS_OK_ACKNOWLEDGE);
            case "individual":
                return connection.createSession(false, ActiveMQSession.INDIVIDUAL_ACKNOWLEDGE);
            case "transacted":
                return connection.createSession(true, Session.SESSION_TRANSACTED);
            case "xa":
                return ((javax.jms.XAConnection) connection).createXASession();
            default:
                return connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        }
    }

    private Object temporary(Request request) throws Exception {
        Session session = of(request, "session", Session.class);
        return keep(request, request.flag("topic") ? session.createTemporaryTopic() : session.createTemporaryQueue());
    }

    private Object send(Request request) throws Exception {
        Session session = of(request, "session", Session.class);
        MessageProducer producer = of(request, "producer", MessageProducer.class);
        Message message = message(session, request.text("kind"), request.get("body"));
        for (Map.Entry<String, Object> property : request.map("properties").entrySet()) {
            setProperty(message, property.getKey(), property.getValue());
        }
        message.setJMSCorrelationID(request.text("correlation"));
        message.setJMSType(request.text("type"));
        if (request.text("replyTo") != null) {
            message.setJMSReplyTo(destination(request, "replyTo"));
        }
        int mode = request.flag("volatile") ? DeliveryMode.NON_PERSISTENT : DeliveryMode.PERSISTENT;
        int priority = (int) request.number("priority", Message.DEFAULT_PRIORITY);
        long life = request.number("ttl", 0);
        if (request.text("to") != null) {
            producer.send(destination(request, "to"), message, mode, priority, life);
        } else {
            producer.send(message, mode, priority, life);
        }
        return null;
    }

    private static Message message(Session session, String kind, Object body) throws Exception {
        switch (kind) {
            case "bytes":
                BytesMessage bytes = session.createBytesMessage();
                bytes.writeBytes(((String) body).getBytes(StandardCharsets.UTF_8));
                return bytes;
            case "map":
                MapMessage map = session.createMapMessage();
                for (Map.Entry<?, ?> entry : ((Map<?, ?>) body).entrySet()) {
                    map.setObject((String) entry.getKey(), typed(entry.getValue()));
                }
                return map;
            case "stream":
                StreamMessage stream = session.createStreamMessage();
                for (Object item : (List<?>) body) {
                    stream.writeObject(typed(item));
                }
                return stream;
            case "object":
                return session.createObjectMessage((String) body);
            case "blob":
                return ((ActiveMQSession) session).createBlobMessage(new java.net.URL((String) body));
            case "plain":
                return session.createMessage();
            default:
                return session.createTextMessage((String) body);
        }
    }

    /** A value of a body: ["byte", 1] and the like for what JSON has no type for. */
    private static Object typed(Object value) {
        if (!(value instanceof List)) {
            return value;
        }
        List<?> typed = (List<?>) value;
        String text = String.valueOf(typed.get(1));
        switch ((String) typed.get(0)) {
            case "byte":
                return Byte.parseByte(text);
            case "short":
                return Short.parseShort(text);
            case "int":
                return Integer.parseInt(text);
            case "float":
                return Float.parseFloat(text);
            case "double":
                return Double.parseDouble(text);
            case "char":
                return text.charAt(0);
            case "bytes":
                return text.getBytes(StandardCharsets.UTF_8);
            default: // a list
                return typed.get(1);
        }
    }

    private static String shown(Object value) {
        if (value == null) {
            return "null";
        }
        String text = value instanceof byte[] ? java.util.Arrays.toString((byte[]) value) : String.valueOf(value);
        return value.getClass().getSimpleName() + " "
                + (text.length() > 200 ? text.length() + " characters " + text.hashCode() : text);
    }

    private static void setProperty(Message message, String name, Object value) throws Exception {
        if (!(value instanceof List)) {
            message.setObjectProperty(name, value);
            return;
        }
        List<?> typed = (List<?>) value;
        String text = String.valueOf(typed.get(1));
        switch ((String) typed.get(0)) {
            case "byte":
                message.setByteProperty(name, Byte.parseByte(text));
                break;
            case "short":
                message.setShortProperty(name, Short.parseShort(text));
                break;
            case "int":
                message.setIntProperty(name, Integer.parseInt(text));
                break;
            case "float":
                message.setFloatProperty(name, Float.parseFloat(text));
                break;
            default:
                message.setDoubleProperty(name, Double.parseDouble(text));
        }
    }

    private Object receive(Request request) throws Exception {
        MessageConsumer consumer = of(request, "consumer", MessageConsumer.class);
        long patience = request.number("timeout", 0);
        Message message = patience < 0 ? consumer.receiveNoWait() : consumer.receive(patience);
        if (message != null && request.text("as") != null) {
            objects.put(request.text("as"), message);
        }
        return message == null ? null : seen(message);
    }

    /** Everything of a message that is not as in any other. */
    private static Map<String, Object> seen(Message message) throws Exception {
        Map<String, Object> seen = new LinkedHashMap<>();
        ActiveMQMessage own = (ActiveMQMessage) message;
        seen.put("kind", own.getClass().getSimpleName().replace("ActiveMQ", "").replace("Message", "").toLowerCase());
        seen.put("body", body(message));
        seen.put("to", String.valueOf(message.getJMSDestination()));
        seen.put("redelivered", message.getJMSRedelivered());
        seen.put("deliveries", message.getIntProperty("JMSXDeliveryCount"));
        seen.put("persistent", message.getJMSDeliveryMode() == DeliveryMode.PERSISTENT);
        seen.put("priority", message.getJMSPriority());
        seen.put("expires", message.getJMSExpiration() != 0);
        seen.put("timestamp", message.getJMSTimestamp() != 0);
        seen.put("correlation", message.getJMSCorrelationID());
        seen.put("type", message.getJMSType());
        seen.put("reply_to", message.getJMSReplyTo() == null ? null : message.getJMSReplyTo().toString());
        seen.put("group", own.getGroupID());
        seen.put("group_sequence", own.getGroupSequence());
        seen.put("first_for_consumer", own.isJMSXGroupFirstForConsumer());
        seen.put("user", own.getUserID());
        seen.put("original", own.getOriginalDestination() == null ? null : own.getOriginalDestination().toString());
        seen.put("transaction", own.getOriginalTransactionId() != null);
        seen.put("data", own.getDataStructure() == null ? null : own.getDataStructure().getClass().getSimpleName());
        seen.put("about", about(own.getDataStructure(), own.getStringProperty("orignalMessageId")));
        Map<String, Object> properties = new TreeMap<>();
        for (Enumeration<?> names = message.getPropertyNames(); names.hasMoreElements();) {
            String name = (String) names.nextElement();
            Object value = message.getObjectProperty(name);
            if (!name.startsWith("JMSX")) {
                properties.put(name, value == null ? "null" : value.getClass().getSimpleName() + " " + value);
            }
        }
        seen.put("properties", properties);
        return seen;
    }

    /** What an advisory says of the message, consumer or producer it is about. */
    private static Object about(DataStructure structure, String named) throws Exception {
        if (structure instanceof ConsumerInfo) {
            return String.valueOf(((ConsumerInfo) structure).getDestination());
        }
        if (structure instanceof ProducerInfo) {
            return String.valueOf(((ProducerInfo) structure).getDestination());
        }
        if (!(structure instanceof ActiveMQMessage)) {
            return null;
        }
        ActiveMQMessage message = (ActiveMQMessage) structure;
        message.setReadOnlyBody(true);
        Map<String, Object> about = new LinkedHashMap<>(seen(message));
        about.values().removeIf(value -> value == null);
        about.put("timestamp", message.getTimestamp() != 0);
        about.put("named", named == null ? null : named.equals(String.valueOf(message.getMessageId())));
        return about;
    }

    private static Object body(Message message) throws Exception {
        if (message instanceof TextMessage) {
            String text = ((TextMessage) message).getText();
            return text != null && text.length() > 200 ? text.length() + " characters " + text.hashCode() : text;
        }
        if (message instanceof BytesMessage) {
            ActiveMQBytesMessage bytes = (ActiveMQBytesMessage) message;
            byte[] content = new byte[(int) bytes.getBodyLength()];
            bytes.readBytes(content);
            bytes.reset();
            return content.length > 200 ? content.length + " bytes " + java.util.Arrays.hashCode(content)
                    : new String(content, StandardCharsets.UTF_8);
        }
        if (message instanceof MapMessage) {
            Map<String, Object> values = new TreeMap<>();
            for (Enumeration<?> names = ((MapMessage) message).getMapNames(); names.hasMoreElements();) {
                String name = (String) names.nextElement();
                Object value = ((MapMessage) message).getObject(name);
                values.put(name, shown(value));
            }
            return values;
        }
        if (message instanceof StreamMessage) {
            List<Object> values = new ArrayList<>();
            try {
                while (true) {
                    Object value = ((StreamMessage) message).readObject();
                    values.add(shown(value));
                }
            } catch (javax.jms.MessageEOFException end) {
                return values;
            }
        }
        if (message instanceof ObjectMessage) {
            return String.valueOf(((ObjectMessage) message).getObject());
        }
        if (message instanceof org.apache.activemq.BlobMessage) {
            return String.valueOf(((org.apache.activemq.BlobMessage) message).getURL());
        }
        return null;
    }

    /**
     * A listener that fails on the first deliveries; what it sees is received like a consumer's messages. Several that are
     * named alike share what they see, each with its "by".
     */
    @SuppressWarnings("unchecked")
    private Object listen(Request request) throws Exception {
        String by = request.text("by");
        LinkedBlockingQueue<Map<String, Object>> shared =
                by == null ? null : (LinkedBlockingQueue<Map<String, Object>>) objects.get(request.text("as"));
        LinkedBlockingQueue<Map<String, Object>> seen = shared != null ? shared : new LinkedBlockingQueue<>();
        long[] failures = {request.number("fail", 0)};
        objects.put(request.text("as"), seen);
        of(request, "consumer", MessageConsumer.class).setMessageListener(message -> {
            try {
                Map<String, Object> what = seen(message);
                if (by != null) {
                    what.put("by", by);
                }
                seen.add(what);
            } catch (Exception unreadable) {
                throw new IllegalStateException(unreadable);
            }
            if (failures[0]-- > 0) {
                throw new IllegalStateException("the listener fails");
            }
        });
        return null;
    }

    private Object waitForHeard(Request request) throws Exception {
        Object source = objects.get(request.text("on"));
        long patience = request.number("timeout", 0);
        if (source instanceof LinkedBlockingQueue) {
            return ((LinkedBlockingQueue<?>) source).poll(patience, TimeUnit.MILLISECONDS);
        }
        List<String> exceptions = heard.get(request.text("on"));
        long end = System.currentTimeMillis() + patience;
        while (exceptions.size() < request.number("count", 1) && System.currentTimeMillis() < end) {
            Thread.sleep(5);
        }
        synchronized (exceptions) {
            return new ArrayList<Object>(exceptions);
        }
    }

    private Object browse(Request request) throws Exception {
        List<Object> found = new ArrayList<>();
        QueueBrowser browser = of(request, "session", Session.class).createBrowser(
                (Queue) destination(request, "to"), request.text("selector"));
        for (Enumeration<?> messages = browser.getEnumeration(); messages.hasMoreElements();) {
            Message message = (Message) messages.nextElement();
            if (message != null) {
                found.add(seen(message));
            }
        }
        browser.close();
        return found;
    }

    /** What Classic's statistics plugin says of a destination, once two answers agree: acknowledgements come late. */
    private Object counters(Request request) throws Exception {
        ActiveMQConnection connection = of(request, "connection", ActiveMQConnection.class);
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        Queue answers = session.createTemporaryQueue();
        MessageConsumer consumer = session.createConsumer(answers);
        MessageProducer producer = session.createProducer(session.createQueue(
                "ActiveMQ.Statistics.Destination" + request.text("name")));
        Map<String, Object> last = null;
        for (int look = 0; look < QUIET_LOOKS; look++) {
            Message question = session.createMessage();
            question.setJMSReplyTo(answers);
            producer.send(question);
            MapMessage answer = (MapMessage) consumer.receive(request.number("timeout", 0));
            Map<String, Object> counters = new TreeMap<>();
            if (answer != null) {
                for (String name : new String[] {"size", "enqueueCount", "dequeueCount", "expiredCount",
                    "inflightCount", "consumerCount"}) {
                    counters.put(name, answer.getLong(name));
                }
            }
            if (counters.equals(last)) {
                break;
            }
            last = counters;
            Thread.sleep(UNTIL_QUIET_MS);
        }
        session.close();
        return last;
    }

    private Object xa(Request request) throws Exception {
        XAResource resource = of(request, "on", XASession.class).getXAResource();
        Xid xid = request.text("xid") == null ? null : xid(request.text("xid"));
        int flags = (int) request.number("flags", XAResource.TMNOFLAGS);
        switch (request.text("do")) {
            case "xa_start":
                resource.start(xid, flags);
                return null;
            case "xa_end":
                resource.end(xid, flags);
                return null;
            case "xa_prepare":
                return resource.prepare(xid) == XAResource.XA_RDONLY ? "XA_RDONLY" : "XA_OK";
            case "xa_commit":
                resource.commit(xid, request.flag("onePhase"));
                return null;
            case "xa_rollback":
                resource.rollback(xid);
                return null;
            case "xa_forget":
                resource.forget(xid);
                return null;
            case "xa_recover":
                List<Object> found = new ArrayList<>();
                for (Xid each : resource.recover(flags)) {
                    found.add(new String(each.getGlobalTransactionId(), StandardCharsets.UTF_8));
                }
                return found;
            default:
                throw new IllegalArgumentException(request.text("do"));
        }
    }

    private static Xid xid(String name) {
        byte[] global = name.getBytes(StandardCharsets.UTF_8);
        return new Xid() {
            @Override
            public int getFormatId() {
                return 4711;
            }

            @Override
            public byte[] getGlobalTransactionId() {
                return global;
            }

            @Override
            public byte[] getBranchQualifier() {
                return new byte[] {1};
            }
        };
    }

    /** Commands as no well-behaved client sends them. */
    private Object raw(Request request) throws Exception {
        ActiveMQConnection connection = of(request, "connection", ActiveMQConnection.class);
        Response response = (Response) connection.syncSendPacket(command(connection, request));
        if (response instanceof IntegerResponse) {
            return "IntegerResponse " + ((IntegerResponse) response).getResult();
        }
        if (response instanceof DataArrayResponse) {
            DataStructure[] data = ((DataArrayResponse) response).getData();
            return "DataArrayResponse " + (data == null ? 0 : data.length);
        }
        return response.getClass().getSimpleName();
    }

    private Command command(ActiveMQConnection connection, Request request) throws Exception {
        org.apache.activemq.command.ConnectionId id = connection.getConnectionInfo().getConnectionId();
        SessionId session = new SessionId(id, request.number("session", -1));
        ActiveMQDestination to = request.text("to") == null ? null : (ActiveMQDestination) destination(request, "to");
        switch (request.text("do")) {
            case "raw_transaction":
                return new TransactionInfo(id, transaction(id, request), (byte) request.number("type", 0));
            case "raw_session":
                return new SessionInfo(session);
            case "raw_producer":
                ProducerInfo producer = new ProducerInfo(new ProducerId(session, request.number("number", 1)));
                producer.setDestination(to);
                return producer;
            case "raw_consumer":
                ConsumerInfo consumer = new ConsumerInfo(new ConsumerId(session, request.number("number", 1)));
                consumer.setDestination(to);
                consumer.setPrefetchSize((int) request.number("prefetch", 1));
                consumer.setBrowser(request.flag("browser"));
                return consumer;
            case "raw_remove":
                long number = request.number("number", 1);
                return new RemoveInfo("session".equals(request.text("what")) ? new SessionId(id, number)
                        : "producer".equals(request.text("what")) ? new ProducerId(session, number)
                        : new ConsumerId(session, number));
            case "raw_unsubscribe":
                RemoveSubscriptionInfo removal = new RemoveSubscriptionInfo();
                removal.setConnectionId(id);
                removal.setClientId(connection.getClientID());
                removal.setSubscriptionName(request.text("name"));
                return removal;
            case "raw_message":
                ActiveMQMessage message = rawMessage(new ProducerId(session, request.number("number", 1)), to);
                if (request.text("xid") != null || request.number("local", 0) != 0) {
                    message.setTransactionId(transaction(id, request));
                }
                return message;
            case "raw_acknowledge":
                MessageDispatch dispatch = new MessageDispatch();
                dispatch.setDestination(to);
                dispatch.setConsumerId(new ConsumerId(session, request.number("number", 1)));
                dispatch.setMessage(rawMessage(new ProducerId(session, 1), to));
                return new MessageAck(dispatch, (byte) request.number("type", 2), 1);
            default:
                throw new IllegalArgumentException(request.text("do"));
        }
    }

    private static ActiveMQMessage rawMessage(ProducerId producer, ActiveMQDestination to) {
        ActiveMQMessage message = new ActiveMQMessage();
        message.setDestination(to);
        message.setProducerId(producer);
        message.setMessageId(new MessageId(producer, 4711));
        message.setPersistent(true);
        return message;
    }

    private static TransactionId transaction(org.apache.activemq.command.ConnectionId id, Request request) {
        return request.text("xid") != null ? new XATransactionId(xid(request.text("xid")))
                : new LocalTransactionId(id, request.number("local", 1));
    }

    private Object keep(Request request, Object made) {
        objects.put(request.text("as"), made);
        return made instanceof ActiveMQMessageProducer || !(made instanceof Destination) ? null : made.toString();
    }

    /** A destination by its address, `queue://Q` and so on, or by the name under which a temporary one was kept. */
    private Destination destination(Request request, String key) {
        String name = request.text(key);
        if (name == null) {
            return null;
        }
        Object kept = objects.get(name);
        return kept instanceof Destination ? (Destination) kept
                : ActiveMQDestination.createDestination(name, ActiveMQDestination.QUEUE_TYPE);
    }

    private <T> T of(Request request, String key, Class<T> type) {
        Object found = objects.get(request.text(key));
        if (!type.isInstance(found)) {
            throw new IllegalArgumentException(key + " " + request.text(key) + " was never made");
        }
        return type.cast(found);
    }

    private void closeAll() {
        for (Object object : new ArrayList<>(objects.values())) {
            if (object instanceof ActiveMQConnection) {
                try {
                    ((ActiveMQConnection) object).close();
                } catch (JMSException | RuntimeException broken) {
                    // a scenario about broken connections leaves them broken
                }
            }
        }
        objects.clear();
        heard.clear();
    }

    /** One request, with what is left out as null, false or the given number. */
    private static final class Request {
        private final Map<String, Object> values;

        Request(Map<String, Object> values) {
            this.values = values;
        }

        Object get(String name) {
            return values.get(name);
        }

        String text(String name) {
            Object value = values.get(name);
            return value == null ? null : value.toString();
        }

        boolean flag(String name) {
            return Boolean.TRUE.equals(values.get(name));
        }

        long number(String name, long otherwise) {
            Object value = values.get(name);
            return value == null ? otherwise : ((Number) value).longValue();
        }

        @SuppressWarnings("unchecked")
        Map<String, Object> map(String name) {
            Object value = values.get(name);
            return value == null ? Collections.emptyMap() : (Map<String, Object>) value;
        }
    }

    /** As much of JSON as the requests need: whole numbers are Long, the others Double. */
    private static final class Json {
        private final String line;
        private int at;

        Json(String line) {
            this.line = line;
        }

        @SuppressWarnings("unchecked")
        Map<String, Object> object() {
            return (Map<String, Object>) value();
        }

        private Object value() {
            char first = next();
            if (first == '{') {
                return members();
            }
            if (first == '[') {
                return items();
            }
            if (first == '"') {
                return string();
            }
            int from = at - 1;
            while (at < line.length() && ",]}".indexOf(line.charAt(at)) < 0) {
                at++;
            }
            String word = line.substring(from, at).trim();
            switch (word) {
                case "true":
                    return true;
                case "false":
                    return false;
                case "null":
                    return null;
                default:
                    if (word.matches("-?\\d+")) {
                        return Long.valueOf(word);
                    }
                    return Double.valueOf(word);
            }
        }

        private Map<String, Object> members() {
            Map<String, Object> members = new LinkedHashMap<>();
            if (peek() == '}') {
                at++;
                return members;
            }
            do {
                next();
                String name = string();
                next();
                members.put(name, value());
            } while (next() == ',');
            return members;
        }

        private List<Object> items() {
            List<Object> items = new ArrayList<>();
            if (peek() == ']') {
                at++;
                return items;
            }
            do {
                items.add(value());
            } while (next() == ',');
            return items;
        }

        private String string() {
            StringBuilder text = new StringBuilder();
            for (char each = line.charAt(at++); each != '"'; each = line.charAt(at++)) {
                if (each == '\\') {
                    each = line.charAt(at++);
                    int index = "nrtbf".indexOf(each);
                    if (each == 'u') {
                        each = (char) Integer.parseInt(line.substring(at, at + 4), 16);
                        at += 4;
                    } else if (index >= 0) {
                        each = "\n\r\t\b\f".charAt(index);
                    }
                }
                text.append(each);
            }
            return text.toString();
        }

        private char peek() {
            while (line.charAt(at) == ' ') {
                at++;
            }
            return line.charAt(at);
        }

        private char next() {
            char found = peek();
            at++;
            return found;
        }

        static String text(Object value) {
            if (value instanceof Map) {
                List<String> members = new ArrayList<>();
                ((Map<?, ?>) value).forEach((name, inner) -> members.add(text(name) + ": " + text(inner)));
                return "{" + String.join(", ", members) + "}";
            }
            if (value instanceof List) {
                List<String> items = new ArrayList<>();
                ((List<?>) value).forEach(item -> items.add(text(item)));
                return "[" + String.join(", ", items) + "]";
            }
            if (value == null || value instanceof Boolean || value instanceof Integer || value instanceof Long) {
                return String.valueOf(value);
            }
            StringBuilder text = new StringBuilder("\"");
            for (char each : value.toString().toCharArray()) {
                if (each == '"' || each == '\\') {
                    text.append('\\').append(each);
                } else if (each < ' ' || each > '~') {
                    text.append(String.format("\\u%04x", (int) each));
                } else {
                    text.append(each);
                }
            }
            return text.append('"').toString();
        }
    }
}
