import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.jolokia.client.J4pClient;
import org.jolokia.client.J4pClientBuilder;
import org.jolokia.client.exception.J4pException;
import org.jolokia.client.request.J4pExecRequest;
import org.jolokia.client.request.J4pListRequest;
import org.jolokia.client.request.J4pReadRequest;
import org.jolokia.client.request.J4pReadResponse;
import org.jolokia.client.request.J4pSearchRequest;
import org.jolokia.client.request.J4pSearchResponse;
import org.jolokia.client.request.J4pVersionRequest;
import org.jolokia.client.request.J4pVersionResponse;
import org.jolokia.client.request.J4pWriteRequest;

/** Answers one tab-separated question a line with Jolokia's own client: arguments are URL, user and password. */
public final class JolokiaQuestions {
    public static void main(String[] arguments) throws Exception {
        J4pClient client =
                new J4pClientBuilder().url(arguments[0]).user(arguments[1]).password(arguments[2]).build();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String answer;
            try {
                answer = String.valueOf(answer(client, line.split("\t")));
            } catch (J4pException error) {
                answer = error.getClass().getSimpleName() + " " + error.getMessage();
            }
            System.out.println(answer.replace('\n', ' '));
            System.out.flush();
        }
    }

    private static Object answer(J4pClient client, String[] words) throws Exception {
        switch (words[0]) {
            case "version":
                J4pVersionResponse version = client.execute(new J4pVersionRequest());
                return version.getProtocolVersion();
            case "read":
                return client.execute(new J4pReadRequest(words[1], words[2]), words[3]).getValue();
            case "bulk":
                List<J4pReadRequest> requests = new ArrayList<>();
                for (String attribute : words[2].split(",")) {
                    requests.add(new J4pReadRequest(words[1], attribute));
                }
                List<Object> values = new ArrayList<>();
                List<J4pReadResponse> responses = client.execute(requests);
                for (J4pReadResponse response : responses) {
                    values.add(response.getValue());
                }
                return values;
            case "search":
                J4pSearchResponse found = client.execute(new J4pSearchRequest(words[1]));
                return found.getMBeanNames().size();
            case "list":
                return client.execute(new J4pListRequest("org.apache.activemq")).getValue().toString().length() > 0;
            case "write":
                return client.execute(new J4pWriteRequest(words[1], words[2], words[3]), "POST").getValue();
            case "exec":
                Object[] given = Arrays.copyOfRange(words, 3, words.length);
                return client.execute(new J4pExecRequest(words[1], words[2], given), "POST").getValue();
            default:
                throw new IllegalArgumentException(words[0]);
        }
    }
}
