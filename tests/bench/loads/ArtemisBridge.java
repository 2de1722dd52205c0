import java.nio.file.Path;
import javax.transaction.TransactionManager;
import org.apache.activemq.ActiveMQConnectionFactory;
import org.apache.activemq.ActiveMQXAConnectionFactory;
import org.apache.activemq.artemis.jms.bridge.ConnectionFactoryFactory;
import org.apache.activemq.artemis.jms.bridge.DestinationFactory;
import org.apache.activemq.artemis.jms.bridge.QualityOfServiceMode;
import org.apache.activemq.artemis.jms.bridge.impl.JMSBridgeImpl;
import org.apache.activemq.command.ActiveMQQueue;

/**
 * The JMS bridge of ActiveMQ Artemis between two queues, with ActiveMQ's own client. ONCE_AND_ONLY_ONCE has Narayana as its
 * transaction manager, whose log is forced for each batch as it comes.
 */
public final class ArtemisBridge {
    private static final long RETRY_MS = 1_000;
    private static final long QUIET_MS = 20; // after which a smaller batch is sent

    public static void main(String[] arguments) throws Exception {
        String source = arguments[0];
        String target = arguments[1];
        DestinationFactory queue = () -> new ActiveMQQueue(arguments[2]);
        int batch = Integer.parseInt(arguments[3]);
        QualityOfServiceMode quality = QualityOfServiceMode.valueOf(arguments[4]);
        boolean distributed = quality == QualityOfServiceMode.ONCE_AND_ONLY_ONCE;
        JMSBridgeImpl bridge = new JMSBridgeImpl(factory(source, distributed), factory(target, distributed), queue, queue,
                null, null, null, null, null, RETRY_MS, -1, quality, batch, QUIET_MS, null, null, false);
        if (distributed) {
            bridge.setTransactionManager(transactionManager(Path.of(arguments[5])));
        }
        bridge.start();
        Thread.currentThread().join();
    }

    private static ConnectionFactoryFactory factory(String address, boolean distributed) {
        return () -> distributed ? new ActiveMQXAConnectionFactory(address) : new ActiveMQConnectionFactory(address);
    }

    private static TransactionManager transactionManager(Path log) throws Exception {
        System.setProperty("ObjectStoreEnvironmentBean.objectStoreDir", log.toString());
        System.setProperty("com.arjuna.ats.arjuna.nodeIdentifier", "bench");
        Class<?> found = Class.forName("com.arjuna.ats.jta.TransactionManager");
        return (TransactionManager) found.getMethod("transactionManager").invoke(null);
    }
}
