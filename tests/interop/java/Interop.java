import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * Scenarios with ActiveMQ's own JMS client. Reads questions, one line each: the scenario, the broker's address and
 * what the scenario wants to know further, separated by tabs. Answers with observations as lines of JSON.
 */
public final class Interop {
    interface Scenario {
        void run(Clients clients, String[] arguments, Observer observer) throws Exception;
    }

    private static final Map<String, Scenario> SCENARIOS = new LinkedHashMap<>();

    static {
        SCENARIOS.put("round-trip", RoundTrip::everyMessage);
        SCENARIOS.put("across-versions", RoundTrip::acrossVersions);
        SCENARIOS.put("send-every-message", RoundTrip::send);
        SCENARIOS.put("receive", RoundTrip::receive);
        Sessions.register(SCENARIOS);
        Consumers.register(SCENARIOS);
        Destinations.register(SCENARIOS);
        Options.register(SCENARIOS);
        SCENARIOS.put("advisories", Advisories::counts);
        SCENARIOS.put("destination-source", Advisories::destinationSource);
        SCENARIOS.put("refusals", Refusals::run);
        SCENARIOS.put("concurrent", Load::concurrent);
        SCENARIOS.put("failover", Load::failover);
        SCENARIOS.put("failover-transaction", Load::failoverTransaction);
        SCENARIOS.put("resends", Resends::one);
        SCENARIOS.put("resends-of-many", Resends::many);
        SCENARIOS.put("resent-commit", Resends::commit);
        SCENARIOS.put("persistent-load", Load::persistent);
        SCENARIOS.put("drain", Load::drain);
        SCENARIOS.put("encrypted", Encrypted::roundTrip);
    }

    public static void main(String[] ignored) throws Exception {
        BufferedReader questions = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Observer observer = new Observer(questions);
        for (String line = questions.readLine(); line != null; line = questions.readLine()) {
            String[] words = line.split("\t", -1);
            Scenario scenario = SCENARIOS.get(words[0]);
            String[] arguments = java.util.Arrays.copyOfRange(words, 2, words.length);
            try {
                if (scenario == null) {
                    throw new IllegalArgumentException("no scenario " + words[0]);
                }
                // The broker may go as soon as we are done, so the connections go first.
                try (Clients clients = new Clients(words[1])) {
                    scenario.run(clients, arguments, observer);
                }
                observer.end("done", true);
            } catch (Throwable failure) {
                StringWriter trace = new StringWriter();
                failure.printStackTrace(new PrintWriter(trace));
                observer.end("failure", trace.toString());
            }
        }
        System.exit(0);
    }
}
