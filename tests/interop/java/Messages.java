import java.io.Serializable;
import java.net.URL;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import javax.jms.BytesMessage;
import javax.jms.JMSException;
import javax.jms.MapMessage;
import javax.jms.Message;
import javax.jms.MessageEOFException;
import javax.jms.ObjectMessage;
import javax.jms.Session;
import javax.jms.StreamMessage;
import javax.jms.TextMessage;
import org.apache.activemq.ActiveMQSession;
import org.apache.activemq.BlobMessage;
import org.apache.activemq.command.ActiveMQDestination;
import org.apache.activemq.command.ActiveMQMessage;

/** Every kind of message that JMS knows, and what there is to say about one that arrived. */
final class Messages {
    private static final int SHOWN = 200;
    private static final String EMOJI = "\uD83D\uDE80";

    /** An object that a broker cannot know. */
    static final class Trade implements Serializable {
        private static final long serialVersionUID = 1L;
        private final String symbol;
        private final double price;

        Trade(String symbol, double price) {
            this.symbol = symbol;
            this.price = price;
        }

        @Override
        public String toString() {
            return symbol + "@" + price;
        }
    }

    // Strings in maps and properties stay within the BMP: the Java client does not read back what it writes for others.

    /** Messages with a property {@code kind} that names them; blob messages exist since version 3. */
    static List<Message> all(Session session, boolean blobs) throws Exception {
        List<Message> messages = new ArrayList<>();
        texts(session, messages);
        bytes(session, messages);
        maps(session, messages);
        streams(session, messages);
        add(messages, "object", session.createObjectMessage(new Trade("MSFT", 39.81)));
        add(messages, "object-list", session.createObjectMessage(new ArrayList<>(List.of("a", 1, 2.5))));
        add(messages, "object-null", session.createObjectMessage());
        add(messages, "plain", session.createMessage());
        if (blobs) {
            URL url = new URL("http://127.0.0.1:1/nothing/is/here");
            add(messages, "blob", ((ActiveMQSession) session).createBlobMessage(url));
        }
        properties(session, messages);
        headers(session, messages);
        return messages;
    }

    private static void add(List<Message> messages, String kind, Message message) throws JMSException {
        message.setStringProperty("kind", kind);
        messages.add(message);
    }

    private static void texts(Session session, List<Message> messages) throws JMSException {
        add(messages, "text", session.createTextMessage("hello"));
        add(messages, "text-empty", session.createTextMessage(""));
        add(messages, "text-null", session.createTextMessage());
        add(messages, "text-characters", session.createTextMessage("nul \u0000 Zürich 東京 " + EMOJI + "\r\n\t\u0001"));
        add(messages, "text-lone-surrogate", session.createTextMessage("a\uD83Db"));
        add(messages, "text-big", session.createTextMessage(("Zürich \u0000 東京 " + EMOJI + " ").repeat(4_000)));
        add(messages, "text-64k", session.createTextMessage("x".repeat(65_536)));
    }

    private static void bytes(Session session, List<Message> messages) throws JMSException {
        BytesMessage every = session.createBytesMessage();
        for (int i = 0; i < 256; i++) {
            every.writeByte((byte) i);
        }
        add(messages, "bytes", every);
        add(messages, "bytes-empty", session.createBytesMessage());
        BytesMessage big = session.createBytesMessage();
        byte[] block = new byte[70_000];
        for (int i = 0; i < block.length; i++) {
            block[i] = (byte) (i * 31 + i / 251);
        }
        big.writeBytes(block);
        add(messages, "bytes-big", big);
        BytesMessage typed = session.createBytesMessage();
        typed.writeBoolean(true);
        typed.writeInt(Integer.MIN_VALUE);
        typed.writeLong(Long.MAX_VALUE);
        typed.writeDouble(Math.PI);
        typed.writeUTF("Zürich");
        add(messages, "bytes-typed", typed);
    }

    private static void maps(Session session, List<Message> messages) throws JMSException {
        MapMessage map = session.createMapMessage();
        map.setBoolean("boolean", true);
        map.setByte("byte", Byte.MIN_VALUE);
        map.setShort("short", Short.MAX_VALUE);
        map.setChar("char", '東');
        map.setInt("int", Integer.MIN_VALUE);
        map.setLong("long", Long.MIN_VALUE);
        map.setFloat("float", Float.MIN_VALUE);
        map.setDouble("double", Double.NaN);
        map.setString("string", "Zürich 東京");
        map.setString("long string", "y".repeat(70_000));
        map.setString("null", null);
        map.setBytes("bytes", new byte[] {0, -1, 127, -128});
        map.setObject("list", List.of("a", 1, 2L));
        map.setObject("map", Map.of("inner", "value"));
        add(messages, "map", map);
        add(messages, "map-empty", session.createMapMessage());
    }

    private static void streams(Session session, List<Message> messages) throws JMSException {
        StreamMessage stream = session.createStreamMessage();
        stream.writeBoolean(false);
        stream.writeByte((byte) 7);
        stream.writeShort((short) -2);
        stream.writeChar('ß');
        stream.writeInt(42);
        stream.writeLong(-42L);
        stream.writeFloat(1.5f);
        stream.writeDouble(Double.MAX_VALUE);
        stream.writeString("Zürich " + EMOJI);
        stream.writeString("z".repeat(70_000));
        stream.writeObject(null);
        stream.writeBytes(new byte[] {1, 2, 3});
        add(messages, "stream", stream);
        add(messages, "stream-empty", session.createStreamMessage());
    }

    private static void properties(Session session, List<Message> messages) throws JMSException {
        Message message = session.createTextMessage("properties");
        message.setBooleanProperty("boolean", true);
        message.setByteProperty("byte", (byte) -1);
        message.setShortProperty("short", (short) 300);
        message.setIntProperty("int", 70_000);
        message.setLongProperty("long", 1L << 40);
        message.setFloatProperty("float", -0.0f);
        message.setDoubleProperty("double", Double.NEGATIVE_INFINITY);
        message.setStringProperty("string", "Zürich 東京");
        message.setStringProperty("empty", "");
        message.setObjectProperty("null", null);
        message.setObjectProperty("list", new ArrayList<>(List.of("a", 1)));
        message.setObjectProperty("map", new TreeMap<>(Map.of("k", true)));
        add(messages, "properties", message);
    }

    private static void headers(Session session, List<Message> messages) throws JMSException {
        Message message = session.createTextMessage("headers");
        message.setJMSCorrelationID("correlation Zürich");
        message.setJMSType("type " + EMOJI);
        message.setJMSReplyTo(session.createQueue("REPLY.TO"));
        message.setStringProperty("JMSXGroupID", "group a");
        message.setIntProperty("JMSXGroupSeq", 3);
        add(messages, "headers", message);
        Message half = session.createTextMessage("headers cut within a character");
        half.setJMSCorrelationID("half \uD83D");
        half.setJMSType("\uDE80 other half");
        add(messages, "headers-half", half);
        Message topic = session.createTextMessage("reply to a topic");
        topic.setJMSReplyTo(session.createTopic("REPLY.TO.TOPIC"));
        add(messages, "reply-to-topic", topic);
    }

    /** All that a consumer can see of a message, but for its identity and times. */
    static Map<String, Object> describe(Message message) throws Exception {
        Map<String, Object> description = new LinkedHashMap<>();
        description.put("class", className(message));
        description.put("body", body(message));
        description.put("destination", String.valueOf(message.getJMSDestination()));
        description.put("deliveryMode", message.getJMSDeliveryMode());
        description.put("priority", message.getJMSPriority());
        description.put("expires", message.getJMSExpiration() != 0);
        description.put("correlationId", message.getJMSCorrelationID());
        description.put("type", message.getJMSType());
        ActiveMQDestination replyTo = (ActiveMQDestination) message.getJMSReplyTo();
        description.put("replyTo", replyTo == null ? null : replyTo.getQualifiedName());
        description.put("groupId", ((ActiveMQMessage) message).getGroupID());
        description.put("groupSequence", ((ActiveMQMessage) message).getGroupSequence());
        Map<String, Object> properties = new TreeMap<>();
        for (Object name : Collections.list(message.getPropertyNames())) {
            if (!name.equals("JMSXDeliveryCount")) {
                properties.put((String) name, value(message.getObjectProperty((String) name)));
            }
        }
        description.put("properties", properties);
        return description;
    }

    /** The same for comparing what was sent with what came, where identity and times must agree, too. */
    static Map<String, Object> describeExactly(Message message) throws Exception {
        Map<String, Object> description = describe(message);
        description.put("messageId", message.getJMSMessageID());
        description.put("timestamp", message.getJMSTimestamp());
        description.put("expiration", message.getJMSExpiration());
        return description;
    }

    private static String className(Message message) {
        return message.getClass().getSimpleName().replace("ActiveMQ", "");
    }

    private static Object body(Message message) throws Exception {
        if (message instanceof TextMessage) {
            return value(((TextMessage) message).getText());
        } else if (message instanceof BytesMessage) {
            BytesMessage bytes = (BytesMessage) message;
            bytes.reset();
            byte[] content = new byte[(int) bytes.getBodyLength()];
            bytes.readBytes(content);
            return value(content);
        } else if (message instanceof MapMessage) {
            MapMessage map = (MapMessage) message;
            Map<String, Object> values = new TreeMap<>();
            for (Object name : Collections.list(map.getMapNames())) {
                values.put((String) name, value(map.getObject((String) name)));
            }
            return values;
        } else if (message instanceof StreamMessage) {
            return items((StreamMessage) message);
        } else if (message instanceof ObjectMessage) {
            return value(((ObjectMessage) message).getObject());
        } else if (message instanceof BlobMessage) {
            return String.valueOf(((BlobMessage) message).getURL());
        }
        return "none";
    }

    private static List<Object> items(StreamMessage stream) throws JMSException {
        stream.reset();
        List<Object> items = new ArrayList<>();
        while (true) {
            try {
                items.add(value(stream.readObject()));
            } catch (MessageEOFException end) {
                return items;
            }
        }
    }

    /** A value with its Java type; long ones by their digest. */
    private static String value(Object value) {
        if (value == null) {
            return "null";
        }
        String text = value instanceof byte[] ? hex((byte[]) value) : value.toString();
        if (text.length() > SHOWN) {
            text = text.length() + " characters, digest " + digest(text);
        }
        return typeName(value) + " " + text;
    }

    private static String typeName(Object value) {
        if (value instanceof List) {
            return "List";
        }
        return value instanceof Map ? "Map" : value.getClass().getSimpleName();
    }

    private static String digest(String text) {
        try {
            byte[] digest = MessageDigest.getInstance("SHA-256").digest(text.getBytes(StandardCharsets.UTF_16BE));
            return hex(Arrays.copyOf(digest, 8));
        } catch (java.security.NoSuchAlgorithmException impossible) {
            throw new IllegalStateException(impossible);
        }
    }

    private static String hex(byte[] bytes) {
        StringBuilder text = new StringBuilder();
        for (byte b : bytes) {
            text.append(Character.forDigit(b >> 4 & 15, 16)).append(Character.forDigit(b & 15, 16));
        }
        return text.toString();
    }
}
