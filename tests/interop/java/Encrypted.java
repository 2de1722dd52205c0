import javax.jms.Connection;
import javax.jms.Destination;
import javax.jms.JMSException;
import javax.jms.MessageConsumer;
import javax.jms.Session;
import org.apache.activemq.ActiveMQSslConnectionFactory;

/** ActiveMQ's client over TLS, with stores of its own. */
final class Encrypted {
    /** Arguments: trust store, its password, and a key store, which may be empty, with its password. */
    static void roundTrip(Clients clients, String[] arguments, Observer observer) throws Exception {
        ActiveMQSslConnectionFactory factory = new ActiveMQSslConnectionFactory(clients.uri);
        if (!arguments[0].isEmpty()) {
            factory.setTrustStoreType("PKCS12");
            factory.setTrustStore("file:" + arguments[0]);
            factory.setTrustStorePassword(arguments[1]);
        }
        if (!arguments[2].isEmpty()) {
            factory.setKeyStoreType("PKCS12");
            factory.setKeyStore("file:" + arguments[2]);
            factory.setKeyStorePassword(arguments[3]);
        }
        Connection connection = null;
        try {
            connection = factory.createConnection();
            connection.start();
            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            Destination queue = session.createQueue("ENCRYPTED");
            String large = "x".repeat(200_000);
            Clients.send(session, queue, "small", large);
            MessageConsumer consumer = session.createConsumer(queue);
            String first = Clients.text(consumer.receive(Clients.PATIENCE_MS));
            String second = Clients.text(consumer.receive(Clients.PATIENCE_MS));
            observer.see("outcome", first + " and " + (second.equals(large) ? "large" : second));
        } catch (JMSException refusal) {
            Throwable cause = refusal;
            while (cause.getCause() != null) {
                cause = cause.getCause();
            }
            observer.see("outcome", cause.getClass().getName() + ": " + cause.getMessage());
        } finally {
            if (connection != null) {
                connection.close();
            }
        }
    }
}
