package dev.fencepost.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.ByteString;
import com.google.protobuf.DebugFormat;

import dev.fencepost.v1.CreateTxRequest;
import dev.fencepost.v1.Payload;

import org.junit.jupiter.api.Test;

/** The output of printed messages, as described in docs/clients.md. */
class PrintedTest {
    private static final CreateTxRequest REQUEST =
            CreateTxRequest.newBuilder()
                    .setSubmitter("alice")
                    .setPayload(
                            Payload.newBuilder()
                                    .setTo("0xabc")
                                    .setValue("77")
                                    .setData(ByteString.copyFromUtf8("secret"))
                                    .setGasLimit(21000))
                    .build();

    @Test
    void debugFormat_redactsPayload() {
        assertEquals(
                "submitter: \"alice\" payload { to: [REDACTED] value: [REDACTED] data: [REDACTED]"
                        + " gas_limit: 21000 }",
                DebugFormat.singleLine()
                        .lazyToString(REQUEST)
                        .toString()
                        .replaceFirst("^goo\\.gle/\\S+\\s+", "")
                        .trim());
    }

    @Test
    void toString_showsPayload() {
        assertTrue(
                REQUEST.toString().contains("0xabc"),
                "toString goes by debug_redact now: say so in docs/clients.md");
    }
}
