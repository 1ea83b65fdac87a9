package dev.fencepost.client;

import com.google.protobuf.Duration;

import dev.fencepost.v1.WatchTxRequest;
import dev.fencepost.v1.WatchTxResponse;

import io.grpc.Context;
import io.grpc.Status;
import io.grpc.stub.ClientCallStreamObserver;
import io.grpc.stub.ClientResponseObserver;

import java.util.ArrayDeque;
import java.util.Iterator;
import java.util.NoSuchElementException;
import java.util.Optional;
import java.util.Queue;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Semaphore;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;

/**
 * Delivers every requested event once, in order per transaction, over as many streams as necessary.
 * If a stream breaks, or is silent for three heartbeats, it resumes on any node.
 *
 * <p>A message with a resume_token marks a position: put it into the request of another watch, even
 * in another process, to continue after that message. Heartbeats are delivered too, and advance the
 * token of a quiet watch.
 *
 * <p>A watch of a submitter, or of all, begins with snapshots of transactions that are not final.
 * They are delivered once complete, and the heartbeat after them has the first token. Events
 * already covered by a snapshot are omitted. A watch of several transactions (txs) begins in the
 * same way, with snapshots of final ones too.
 *
 * <p>It ends when it is closed; with until_final, once all its transactions are final. {@link
 * #hasNext} waits for the next message. It throws {@link FencepostException} when the node rejects
 * the request, or after the client's patience without a stream; when the thread is interrupted, its
 * io.grpc.Context is cancelled or the client is closed (CANCELLED); or with RESUME_TOKEN_EXPIRED
 * when the next events are no longer in the ledger, which only the caller can handle.
 *
 * <p>One thread at a time may read it; any thread may close it.
 */
public final class Watch
        implements Iterator<WatchTxResponse>, Iterable<WatchTxResponse>, AutoCloseable {
    private static final long FIRST_PAUSE =
            TimeUnit.MILLISECONDS.toNanos(
                    100); // before a stream is resumed; doubles up to LONGEST_PAUSE
    private static final long LONGEST_PAUSE = TimeUnit.SECONDS.toNanos(5);
    // limit for a node's retry delay
    private static final long LONGEST_WAIT = TimeUnit.MINUTES.toNanos(1);
    private static final int SILENCES = 3; // missed heartbeats before a stream counts as dead

    // Limits enforced by nodes, in nanoseconds. A node rejects other heartbeats; the stream must
    // live until the rejection arrives.
    private static final long SHORTEST_HEARTBEAT = TimeUnit.SECONDS.toNanos(1);
    private static final long LONGEST_HEARTBEAT = TimeUnit.MINUTES.toNanos(5);

    private final FencepostClient client;
    private final WatchTxRequest request;
    private final long quiet; // longest silence of a live stream
    private final long patience;

    private final Position position;
    private final Queue<WatchTxResponse> ready = new ArrayDeque<>();
    private final CountDownLatch closed = new CountDownLatch(1);

    /** Ends a pause between two streams. */
    private final Semaphore awake = new Semaphore(0);

    private volatile Stream stream;
    private volatile boolean clientClosed;
    private boolean enlisted;
    private boolean over;
    private boolean lost; // since the last message
    private long lostAt;
    private volatile FencepostException broken; // the error of the last stream
    private long pause = FIRST_PAUSE;

    Watch(
            FencepostClient client,
            WatchTxRequest request,
            java.time.Duration heartbeat,
            java.time.Duration patience) {
        this.client = client;
        WatchTxRequest.Builder builder = request.toBuilder();
        if (!request.hasHeartbeat()) {
            builder.setHeartbeat(
                    Duration.newBuilder()
                            .setSeconds(heartbeat.getSeconds())
                            .setNanos(heartbeat.getNano()));
        }
        this.request = builder.build();
        this.quiet = SILENCES * granted(this.request.getHeartbeat());
        this.patience = Options.nanos(patience);
        this.position = new Position(request.getResumeToken());
    }

    private static long granted(Duration heartbeat) {
        long seconds =
                Math.max(
                        0,
                        Math.min(
                                heartbeat.getSeconds(),
                                TimeUnit.NANOSECONDS.toSeconds(LONGEST_HEARTBEAT)));
        return Math.max(
                SHORTEST_HEARTBEAT,
                Math.min(
                        TimeUnit.SECONDS.toNanos(seconds) + heartbeat.getNanos(),
                        LONGEST_HEARTBEAT));
    }

    @Override
    public Iterator<WatchTxResponse> iterator() {
        return this;
    }

    @Override
    public boolean hasNext() {
        if (!enlisted) {
            enlisted = true;
            client.add(this);
            if (closed.getCount() == 0) {
                client.remove(this);
            }
        }
        try {
            while (ready.isEmpty() && !over && closed.getCount() > 0) {
                advance();
            }
        } catch (InterruptedException e) {
            close();
            Thread.currentThread().interrupt();
            throw FencepostException.of(
                    Status.CANCELLED
                            .withDescription("the thread reading the watch was interrupted")
                            .withCause(e));
        } catch (RuntimeException e) {
            close();
            throw e;
        }
        if (over && ready.isEmpty()) {
            client.remove(this);
        } else if (clientClosed) {
            clientClosed = false; // thrown once
            throw FencepostException.of(CallPolicy.CLOSED);
        }
        return !ready.isEmpty() && closed.getCount() > 0;
    }

    @Override
    public WatchTxResponse next() {
        if (!hasNext()) {
            throw new NoSuchElementException("the watch is over");
        }
        return ready.remove();
    }

    /** Ends the watch; a waiting reader gets the end. */
    @Override
    public void close() {
        client.remove(this);
        closed.countDown();
        awake.release();
        Stream open = stream;
        if (open != null) {
            open.cancel();
        }
    }

    /** Ends the watch with an error, unless it already ended. */
    void endWithClient() {
        if (closed.getCount() > 0) {
            clientClosed = true;
        }
        close();
    }

    /** Reads one message, or handles the end of the stream. */
    private void advance() throws InterruptedException {
        if (stream == null) {
            position.rewind();
            Stream opening = new Stream();
            stream = opening;
            client.streams()
                    .watchTx(request.toBuilder().setResumeToken(position.token()).build(), opening);
            opening.started();
            if (closed.getCount() == 0) {
                opening.cancel();
                return;
            }
        }
        Optional<WatchTxResponse> message;
        try {
            message = stream.take(quiet);
        } catch (FencepostException e) {
            resume(e);
            return;
        }
        if (message.isPresent()) {
            lost = false;
            broken = null;
            pause = FIRST_PAUSE;
            ready.addAll(position.take(message.get()));
        } else if (request.getUntilFinal()) {
            over = true;
        } else {
            resume(FencepostException.of(Status.UNAVAILABLE.withDescription("the stream ended")));
        }
    }

    /** Waits before the next stream, or gives up. */
    private void resume(FencepostException e) throws InterruptedException {
        stream = null;
        if (closed.getCount() == 0) {
            return;
        }
        if (!lost) {
            lost = true;
            lostAt = System.nanoTime();
        }
        if (!e.resumable() || System.nanoTime() - lostAt > patience) {
            if (broken != null) {
                e.addSuppressed(broken);
            }
            throw e;
        }
        broken = e;
        // Jitter: watchers that lose a node must not all return at once.
        long wait = pause / 2 + ThreadLocalRandom.current().nextLong(pause / 2);
        sleep(Math.max(wait, Math.min(e.retryAfter().toNanos(), LONGEST_WAIT)));
        pause = Math.min(2 * pause, LONGEST_PAUSE);
        client.reconnect();
    }

    /**
     * Waits until the watch is closed or the reader's context cancelled, at most this long; the
     * next stream then reports it.
     */
    private void sleep(long nanos) throws InterruptedException {
        Context context = Context.current();
        Context.CancellationListener ending = ended -> awake.release();
        context.addListener(ending, Runnable::run);
        try {
            awake.tryAcquire(nanos, TimeUnit.NANOSECONDS);
        } finally {
            context.removeListener(ending);
        }
    }

    /** Returns the error of the last stream; empty while one is live. */
    Optional<FencepostException> broken() {
        return Optional.ofNullable(broken);
    }

    /** One stream. It requests one message at a time, so a slow reader delays only itself. */
    private static final class Stream
            implements ClientResponseObserver<WatchTxRequest, WatchTxResponse> {
        /**
         * A message, the error of the stream, or this stream as its regular end. Room for a message
         * and the end after it.
         */
        private final BlockingQueue<Object> heard = new ArrayBlockingQueue<>(2);

        private ClientCallStreamObserver<WatchTxRequest> starting;

        /** Null before the start: gRPC does not allow cancelling earlier. */
        private volatile ClientCallStreamObserver<WatchTxRequest> call;

        @Override
        public void beforeStart(ClientCallStreamObserver<WatchTxRequest> call) {
            starting = call;
            call.disableAutoRequestWithInitial(1);
        }

        void started() {
            call = starting;
        }

        /** Returns the next message; empty at the regular end of the stream. */
        Optional<WatchTxResponse> take(long quiet) throws InterruptedException {
            Object next = heard.poll(quiet, TimeUnit.NANOSECONDS);
            if (next instanceof WatchTxResponse message) {
                call.request(1);
                return Optional.of(message);
            }
            if (next instanceof Throwable thrown) {
                throw FencepostException.of(thrown);
            }
            if (next == null) {
                cancel();
                throw FencepostException.of(
                        Status.UNAVAILABLE.withDescription(
                                "the stream was silent for " + java.time.Duration.ofNanos(quiet)));
            }
            return Optional.empty();
        }

        void cancel() {
            ClientCallStreamObserver<WatchTxRequest> open = call;
            if (open != null) {
                open.cancel("the watch is over", null);
            }
        }

        @Override
        public void onNext(WatchTxResponse message) {
            heard.add(message);
        }

        @Override
        public void onError(Throwable thrown) {
            heard.add(thrown);
        }

        @Override
        public void onCompleted() {
            heard.add(this);
        }
    }
}
