import java.util.Hashtable;
import javax.naming.Context;
import javax.naming.InitialContext;
import org.apache.activemq.ActiveMQConnectionFactory;
import org.apache.activemq.command.ActiveMQQueue;

/** Stores a connection factory and a queue of ActiveMQ in an LDAP directory, as Java's own JNDI does. */
public final class Bind {
    public static void main(String[] arguments) throws Exception {
        Hashtable<String, String> environment = new Hashtable<>();
        environment.put(Context.INITIAL_CONTEXT_FACTORY, "com.sun.jndi.ldap.LdapCtxFactory");
        environment.put(Context.PROVIDER_URL, arguments[0]);
        environment.put(Context.SECURITY_PRINCIPAL, arguments[1]);
        environment.put(Context.SECURITY_CREDENTIALS, arguments[2]);
        InitialContext context = new InitialContext(environment);
        ActiveMQConnectionFactory factory = new ActiveMQConnectionFactory(arguments[3]);
        factory.setUserName("bridge");
        factory.setPassword("word");
        context.bind("cn=Stored", factory);
        context.bind("cn=StoredQueue", new ActiveMQQueue("STORED.A"));
        context.close();
    }
}
