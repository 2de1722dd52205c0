import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.StringReader;
import java.nio.charset.StandardCharsets;
import java.util.Base64;

import org.apache.activemq.openwire.OpenWireFormat;
import org.apache.activemq.transport.xstream.XStreamWireFormat;
import org.apache.activemq.util.ByteSequence;
import org.apache.activemq.util.HexSupport;

/**
 * Translates commands between OpenWire frames (version 12, loose, no cache) and the XML of activemq-http.
 *
 * One question a line: "xml HEX" answers the XML in Base64, "frame BASE64" answers the frame in hex; "!" and a class
 * name follow a refusal.
 */
public class XmlForms {
    private static final XStreamWireFormat XML = new XStreamWireFormat();

    private static OpenWireFormat binary() {
        OpenWireFormat format = new OpenWireFormat(12);
        format.setTightEncodingEnabled(false);
        format.setCacheEnabled(false);
        format.setStackTraceEnabled(true);
        format.setSizePrefixDisabled(false);
        format.setMaxFrameSizeEnabled(false);
        return format;
    }

    private static String answer(String question) throws Exception {
        String value = question.substring(question.indexOf(' ') + 1);
        if (question.startsWith("xml ")) {
            Object command = binary().unmarshal(new ByteSequence(HexSupport.toBytesFromHex(value)));
            return Base64.getEncoder().encodeToString(XML.marshalText(command).getBytes(StandardCharsets.UTF_8));
        }
        String text = new String(Base64.getDecoder().decode(value), StandardCharsets.UTF_8);
        ByteSequence frame = binary().marshal(XML.unmarshalText(new StringReader(text)));
        frame.compact();
        return HexSupport.toHexFromBytes(frame.getData());
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, true, "UTF-8");
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            try {
                out.println(answer(line));
            } catch (Throwable refusal) {
                out.println("!" + refusal.getClass().getName() + " " + String.valueOf(refusal.getMessage()).replace('\n', ' '));
            }
        }
    }
}
