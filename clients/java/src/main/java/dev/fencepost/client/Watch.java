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
 * Delivers what its request asks for: every event once and in order per transaction, over as many streams as it takes. When a stream breaks, or says nothing for
 * three heartbeats, it is resumed where it was, on whichever node answers.
 *
 * <p>A message with a resume_token is a place to go on from: put it into the request of another watch, also in another process, to get what comes after that
 * message. Heartbeats are delivered too; they move the token of a quiet watch on.
 *
 * <p>A watch of a submitter, or of all, begins with snapshots of what is not final, which are delivered once they are complete; the heartbeat after them brings the
 * first token. Events that a snapshot shows already are left out. So does a watch of several transactions (txs), whose snapshots show what is final too.
 *
 * <p>It ends with the final event, of several once all are final, if the request says until_final, and when it is closed. {@link #hasNext} waits for the next message. It throws
 * {@link FencepostException} when the node refuses the request, when no stream could be had for the client's patience, when the thread is interrupted, its io.grpc.Context cancelled or
 * the client closed (CANCELLED), or with RESUME_TOKEN_EXPIRED when the ledger does not hold what comes next any more: only the caller can know what to make of that.
 *
 * <p>One thread at a time may read it; any may close it.
 */
public final class Watch implements Iterator<WatchTxResponse>, Iterable<WatchTxResponse>, AutoCloseable {
    private static final long FIRST_PAUSE = TimeUnit.MILLISECONDS.toNanos(100); // before a stream is resumed; doubles up to LONGEST_PAUSE
    private static final long LONGEST_PAUSE = TimeUnit.SECONDS.toNanos(5);
    private static final long LONGEST_WAIT = TimeUnit.MINUTES.toNanos(1); // that a node can ask for
    private static final int SILENCES = 3; // heartbeats that fail to come before a stream is taken for dead

    // What a node grants, in nanoseconds. It refuses a request for another heartbeat; the stream must live until that is heard.
    private static final long SHORTEST_HEARTBEAT = TimeUnit.SECONDS.toNanos(1);
    private static final long LONGEST_HEARTBEAT = TimeUnit.MINUTES.toNanos(5);

    private final FencepostClient client;
    private final WatchTxRequest request;
    private final long quiet; // longest silence of a stream that lives
    private final long patience;

    private final Place place;
    private final Queue<WatchTxResponse> ready = new ArrayDeque<>();
    private final CountDownLatch closed = new CountDownLatch(1);
    /** Ends a pause between two streams. */
    private final Semaphore awake = new Semaphore(0);
    private volatile Stream stream;
    private volatile boolean clientClosed;
    private boolean enlisted;
    private boolean over;
    private boolean lost; // since the last stream that said something
    private long lostAt;
    private volatile FencepostException broken; // why it was lost
    private long pause = FIRST_PAUSE;

    Watch(FencepostClient client, WatchTxRequest request, java.time.Duration heartbeat, java.time.Duration patience) {
        this.client = client;
        WatchTxRequest.Builder builder = request.toBuilder();
        if (!request.hasHeartbeat()) {
            builder.setHeartbeat(Duration.newBuilder().setSeconds(heartbeat.getSeconds()).setNanos(heartbeat.getNano()));
        }
        this.request = builder.build();
        this.quiet = SILENCES * granted(this.request.getHeartbeat());
        this.patience = Options.nanos(patience);
        this.place = new Place(request.getResumeToken());
    }

    private static long granted(Duration heartbeat) {
        long seconds = Math.max(0, Math.min(heartbeat.getSeconds(), TimeUnit.NANOSECONDS.toSeconds(LONGEST_HEARTBEAT)));
        return Math.max(SHORTEST_HEARTBEAT, Math.min(TimeUnit.SECONDS.toNanos(seconds) + heartbeat.getNanos(), LONGEST_HEARTBEAT));
    }

    @Override
    public Iterator<WatchTxResponse> iterator() {
        return this;
    }

    @Override
    public boolean hasNext() {
        if (!enlisted) {
            enlisted = true;
            client.enlist(this);
            if (closed.getCount() == 0) {
                client.dismiss(this);
            }
        }
        try {
            while (ready.isEmpty() && !over && closed.getCount() > 0) {
                advance();
            }
        } catch (InterruptedException e) {
            close();
            Thread.currentThread().interrupt();
            throw FencepostException.of(Status.CANCELLED.withDescription("the thread that reads the watch was interrupted").withCause(e));
        } catch (RuntimeException e) {
            close();
            throw e;
        }
        if (over && ready.isEmpty()) {
            client.dismiss(this);
        } else if (clientClosed) {
            clientClosed = false; // it is told once
            throw FencepostException.of(Patience.CLOSED);
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

    /** Ends the watch; a thread that waits in it is told that there is no more. */
    @Override
    public void close() {
        client.dismiss(this);
        closed.countDown();
        awake.release();
        Stream open = stream;
        if (open != null) {
            open.cancel();
        }
    }

    /** Ends the watch with an error, unless it is over already. */
    void endWithClient() {
        if (closed.getCount() > 0) {
            clientClosed = true;
        }
        close();
    }

    /** Takes one message, or finds out why there is none. */
    private void advance() throws InterruptedException {
        if (stream == null) {
            place.rewind();
            Stream opening = new Stream();
            stream = opening;
            client.streams().watchTx(request.toBuilder().setResumeToken(place.token()).build(), opening);
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
            ready.addAll(place.take(message.get()));
        } else if (request.getUntilFinal()) {
            over = true;
        } else {
            resume(FencepostException.of(Status.UNAVAILABLE.withDescription("the stream ended")));
        }
    }

    /** Waits before there is another stream, or gives up. */
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
        // Of many watchers that lose a node not all shall come back at once.
        long wait = pause / 2 + ThreadLocalRandom.current().nextLong(pause / 2);
        sleep(Math.max(wait, Math.min(e.retryAfter().toNanos(), LONGEST_WAIT)));
        pause = Math.min(2 * pause, LONGEST_PAUSE);
        client.reconnect();
    }

    /** Waits, unless the watch is closed or the context of its reader cancelled, which the next stream finds out. */
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

    /** Why there is no stream; empty while there is one. */
    Optional<FencepostException> broken() {
        return Optional.ofNullable(broken);
    }

    /** One stream. It asks for one message after the other, so that a reader who is slow holds nothing up but itself. */
    private static final class Stream implements ClientResponseObserver<WatchTxRequest, WatchTxResponse> {
        /** A message, the error that ended the stream, or this stream for its good end. Two have room: a message and the end behind it. */
        private final BlockingQueue<Object> heard = new ArrayBlockingQueue<>(2);

        private ClientCallStreamObserver<WatchTxRequest> starting;
        /** Null until it has been started: before that a call cannot bear to be cancelled. */
        private volatile ClientCallStreamObserver<WatchTxRequest> call;

        @Override
        public void beforeStart(ClientCallStreamObserver<WatchTxRequest> call) {
            starting = call;
            call.disableAutoRequestWithInitial(1);
        }

        void started() {
            call = starting;
        }

        /** The next message; empty at the good end of the stream. */
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
                throw FencepostException.of(Status.UNAVAILABLE.withDescription("the stream was silent for " + java.time.Duration.ofNanos(quiet)));
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
