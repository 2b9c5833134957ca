package judge;

import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HexFormat;

/** The body of message number i: "PREFIX-i|", then filler byte j = 1 + (i + j) % 255 up to the size asked for. */
final class Payload {
    private Payload() {
    }

    static byte[] body(String prefix, int index, int size) {
        byte[] head = (prefix + "-" + index + "|").getBytes(StandardCharsets.UTF_8);
        byte[] body = java.util.Arrays.copyOf(head, Math.max(size, head.length));
        for (int at = head.length, j = 0; at < body.length; at++, j++) {
            body[at] = (byte) (1 + (index + j) % 255);
        }
        return body;
    }

    static String digest(byte[] body) {
        try {
            return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(body));
        } catch (NoSuchAlgorithmException impossible) {
            throw new IllegalStateException(impossible);
        }
    }
}
