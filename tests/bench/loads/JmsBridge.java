import java.io.RandomAccessFile;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.util.concurrent.atomic.AtomicLong;
import javax.jms.Connection;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Session;
import javax.jms.XAConnection;
import javax.jms.XASession;
import javax.transaction.xa.XAResource;
import javax.transaction.xa.Xid;
import org.apache.activemq.ActiveMQConnectionFactory;
import org.apache.activemq.ActiveMQXAConnectionFactory;

/**
 * A straight loop from one queue to another, as a JMS bridge in Java does it: batches as large as what is at hand, at most
 * so many messages. DUPLICATES_OK commits them at the target, then acknowledges at the source; ONCE_AND_ONLY_ONCE has a
 * branch at each broker and forces a record of the decision to a file.
 */
public final class JmsBridge {
    private static final long WAIT_MS = 10_000;
    private static final int RECORD = 64; // bytes of a decision
    private static final int FORMAT = 0x4A42;

    public static void main(String[] arguments) throws Exception {
        String source = arguments[0];
        String target = arguments[1];
        String queue = arguments[2];
        int batch = Integer.parseInt(arguments[3]);
        if (arguments[4].equals("ONCE_AND_ONLY_ONCE")) {
            distributed(source, target, queue, batch, arguments[5]);
        } else {
            repeated(source, target, queue, batch);
        }
    }

    private static void repeated(String source, String target, String queue, int batch) throws Exception {
        Connection from = new ActiveMQConnectionFactory(source).createConnection();
        Session in = from.createSession(false, Session.CLIENT_ACKNOWLEDGE);
        MessageConsumer consumer = in.createConsumer(in.createQueue(queue));
        Connection to = new ActiveMQConnectionFactory(target).createConnection();
        Session out = to.createSession(true, Session.SESSION_TRANSACTED);
        MessageProducer producer = out.createProducer(out.createQueue(queue));
        from.start();
        to.start();
        while (true) {
            Message last = forward(consumer, producer, batch);
            if (last != null) {
                out.commit();
                last.acknowledge();
            }
        }
    }

    private static Message forward(MessageConsumer consumer, MessageProducer producer, int batch) throws Exception {
        Message last = null;
        Message message = consumer.receive(WAIT_MS);
        for (int count = 1; message != null; count++) {
            producer.send(message, message.getJMSDeliveryMode(), message.getJMSPriority(), 0);
            last = message;
            message = count < batch ? consumer.receiveNoWait() : null;
        }
        return last;
    }

    private static void distributed(String source, String target, String queue, int batch, String file) throws Exception {
        XAConnection from = new ActiveMQXAConnectionFactory(source).createXAConnection();
        XAConnection to = new ActiveMQXAConnectionFactory(target).createXAConnection();
        XASession in = from.createXASession();
        XASession out = to.createXASession();
        XAResource first = in.getXAResource();
        XAResource second = out.getXAResource();
        MessageConsumer consumer = in.createConsumer(in.createQueue(queue));
        MessageProducer producer = out.createProducer(out.createQueue(queue));
        from.start();
        to.start();
        AtomicLong number = new AtomicLong(System.nanoTime());
        try (RandomAccessFile opened = new RandomAccessFile(file, "rw"); FileChannel log = opened.getChannel()) {
            while (true) {
                long transaction = number.incrementAndGet();
                Branch one = new Branch(transaction, (byte) 1);
                Branch other = new Branch(transaction, (byte) 2);
                first.start(one, XAResource.TMNOFLAGS);
                second.start(other, XAResource.TMNOFLAGS);
                Message last = forward(consumer, producer, batch);
                first.end(one, XAResource.TMSUCCESS);
                second.end(other, XAResource.TMSUCCESS);
                if (last == null) {
                    first.rollback(one);
                    second.rollback(other);
                    continue;
                }
                first.prepare(one);
                second.prepare(other);
                ByteBuffer record = ByteBuffer.allocate(RECORD);
                record.putLong(transaction).rewind();
                log.write(record);
                log.force(false);
                first.commit(one, false);
                second.commit(other, false);
            }
        }
    }

    private static final class Branch implements Xid {
        private final byte[] transaction;
        private final byte[] qualifier;

        Branch(long number, byte side) {
            transaction = ByteBuffer.allocate(Long.BYTES).putLong(number).array();
            qualifier = new byte[] {side};
        }

        @Override
        public int getFormatId() {
            return FORMAT;
        }

        @Override
        public byte[] getGlobalTransactionId() {
            return transaction;
        }

        @Override
        public byte[] getBranchQualifier() {
            return qualifier;
        }
    }
}
