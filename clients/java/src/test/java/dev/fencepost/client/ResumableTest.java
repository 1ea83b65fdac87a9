package dev.fencepost.client;

import static org.junit.jupiter.api.Assertions.assertEquals;

import com.google.protobuf.Any;
import com.google.protobuf.Duration;
import com.google.rpc.ErrorInfo;
import com.google.rpc.RetryInfo;
import io.grpc.Status;
import io.grpc.protobuf.StatusProto;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;

/** Which errors a watch outlives is told by one table, which the tests of all languages go through. */
class ResumableTest {
    @Test
    void errorsAreResumableAsTheTableSays() throws IOException {
        List<String> lines = Files.readAllLines(Path.of("../resumable.csv"));
        assertEquals(17, lines.size());
        for (String line : lines.subList(1, lines.size())) {
            String[] parts = line.split(",");
            for (String reason : List.of("", "NODE_BUSY")) {
                for (long seconds : List.of(0L, 1L)) {
                    boolean want = switch (parts[1]) {
                        case "always" -> true;
                        case "never" -> false;
                        case "without a reason" -> reason.isEmpty();
                        case "with a delay" -> seconds > 0;
                        default -> throw new IllegalArgumentException(line);
                    };
                    FencepostException e = thrown(Status.Code.valueOf(parts[0]), reason, seconds);
                    assertEquals(want, e.resumable(), line + ": reason \"" + reason + "\", " + seconds + " s");
                }
            }
        }
    }

    private static FencepostException thrown(Status.Code code, String reason, long seconds) {
        com.google.rpc.Status.Builder status = com.google.rpc.Status.newBuilder().setCode(code.value()).setMessage("so it is");
        if (!reason.isEmpty()) {
            status.addDetails(Any.pack(ErrorInfo.newBuilder().setReason(reason).setDomain("fencepost.dev").build()));
        }
        if (seconds > 0) {
            status.addDetails(Any.pack(RetryInfo.newBuilder().setRetryDelay(Duration.newBuilder().setSeconds(seconds)).build()));
        }
        return FencepostException.of(StatusProto.toStatusRuntimeException(status.build()));
    }
}
