import org.apache.activemq.broker.BrokerService;

/** A broker with a connector for OpenWire over HTTP and one for TCP; ends with its standard input. */
public class HttpBroker {
    public static void main(String[] arguments) throws Exception {
        BrokerService broker = new BrokerService();
        broker.setBrokerName(arguments[0]);
        broker.setPersistent(false);
        broker.setUseJmx(false);
        broker.setAdvisorySupport(true);
        broker.addConnector("http://127.0.0.1:" + arguments[1]);
        broker.addConnector("tcp://127.0.0.1:" + arguments[2]);
        if (arguments.length > 3) {
            broker.addNetworkConnector(arguments[3]);
        }
        broker.start();
        broker.waitUntilStarted();
        System.out.println("started");
        while (System.in.read() >= 0) {}
        System.exit(0);
    }
}
