import java.io.BufferedReader;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;

/** Writes observations as JSON lines; waits for the other side where something must happen in between. */
final class Observer {
    private final BufferedReader answers;
    private final PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);

    Observer(BufferedReader answers) {
        this.answers = answers;
    }

    /** One observation: name, value, name, value, … */
    synchronized void see(Object... namesAndValues) {
        Map<String, Object> observation = new LinkedHashMap<>();
        for (int i = 0; i < namesAndValues.length; i += 2) {
            observation.put((String) namesAndValues[i], namesAndValues[i + 1]);
        }
        write(observation);
    }

    /** Says that it is time for an event; returns when it has happened. */
    void await(String event) throws IOException {
        write(Map.of("event", event));
        answers.readLine();
    }

    void end(String how, Object value) {
        write(Map.of(how, value));
    }

    private synchronized void write(Map<String, Object> observation) {
        StringBuilder line = new StringBuilder();
        append(line, observation);
        out.append(line).append('\n');
        out.flush();
    }

    private static void append(StringBuilder line, Object value) {
        if (value instanceof Map) {
            String separator = "{";
            for (Map.Entry<?, ?> entry : ((Map<?, ?>) value).entrySet()) {
                line.append(separator);
                append(line, entry.getKey().toString());
                line.append(": ");
                append(line, entry.getValue());
                separator = ", ";
            }
            line.append(separator.equals("{") ? "{}" : "}");
        } else if (value instanceof Iterable) {
            String separator = "[";
            for (Object item : (Iterable<?>) value) {
                line.append(separator);
                append(line, item);
                separator = ", ";
            }
            line.append(separator.equals("[") ? "[]" : "]");
        } else if (value == null || value instanceof Boolean || value instanceof Integer || value instanceof Long) {
            line.append(value);
        } else {
            appendText(line, value.toString());
        }
    }

    private static void appendText(StringBuilder line, String text) {
        line.append('"');
        for (int i = 0; i < text.length(); i++) {
            char character = text.charAt(i);
            if (character == '"' || character == '\\') {
                line.append('\\').append(character);
            } else if (character < ' ' || character > '~') {
                line.append(String.format("\\u%04x", (int) character));
            } else {
                line.append(character);
            }
        }
        line.append('"');
    }
}
