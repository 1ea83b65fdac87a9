package dev.fencepost.client;

import io.grpc.ClientStreamTracer;
import io.grpc.Metadata;
import io.grpc.Status;

/** Why the last attempt of a call failed, other than by its end: when a deadline ends the call between two attempts, gRPC tells of the deadline alone. */
final class LastFailure extends ClientStreamTracer.Factory {
    private volatile Status status;

    @Override
    public ClientStreamTracer newClientStreamTracer(ClientStreamTracer.StreamInfo info, Metadata headers) {
        return new ClientStreamTracer() {
            @Override
            public void streamClosed(Status end) {
                if (!end.isOk() && end.getCode() != Status.Code.DEADLINE_EXCEEDED && end.getCode() != Status.Code.CANCELLED) {
                    status = end;
                }
            }
        };
    }

    /** Adds it to a deadline that passed, unless it is the node that says so. */
    Status explain(Status end, Metadata trailers) {
        Status last = status;
        if (last == null || end.getCode() != Status.Code.DEADLINE_EXCEEDED || !FencepostException.of(end.asRuntimeException(trailers)).reasonName().isEmpty()) {
            return end;
        }
        return end.withDescription(end.getDescription() + "; the attempt before failed: " + text(last));
    }

    /** What a status says to people, as the exception of it does. */
    static String text(Status status) {
        return FencepostException.of(status).getMessage();
    }
}
