import com.google.gson.JsonObject;
import com.google.gson.JsonParseException;
import com.google.gson.JsonParser;
import com.standardwebhooks.Webhook;
import com.standardwebhooks.exceptions.WebhookVerificationException;
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/**
 * Receives events of Fencepost over HTTP, verifies their signatures, and prints each event once.
 * Arguments: PORT SECRET_FILE, a file that holds whsec_...
 */
public final class Receiver {
  /** Bounds a delivery, in bytes. Events are a few kilobytes. */
  private static final int MAX_BODY = 1 << 20;

  private final Webhook verifier;

  /** Ids of events. A real receiver stores id and effect in one transaction. */
  private final Set<String> seen = ConcurrentHashMap.newKeySet();

  private Receiver(String secret) {
    verifier = new Webhook(secret);
  }

  public static void main(String[] args) throws IOException {
    Receiver receiver = new Receiver(Files.readString(Path.of(args[1])).strip());
    int port = Integer.parseInt(args[0]);
    HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", port), 0);
    server.createContext("/", exchange -> {
      try (exchange) {
        exchange.sendResponseHeaders(receiver.receive(exchange), -1);
      }
    });
    server.start();
  }

  /** Returns the HTTP status: 2xx only for an event that was processed. */
  private int receive(HttpExchange exchange) throws IOException {
    byte[] body = exchange.getRequestBody().readNBytes(MAX_BODY + 1);
    if (body.length > MAX_BODY) {
      return 413;
    }
    String text = new String(body, StandardCharsets.UTF_8);
    try {
      verifier.verify(text, exchange.getRequestHeaders());
    } catch (WebhookVerificationException e) {
      return 401;
    }
    try {
      print(JsonParser.parseString(text).getAsJsonObject());
    } catch (JsonParseException | IllegalStateException | NullPointerException e) {
      return 400; // not a CloudEvent in JSON
    }
    return 204;
  }

  private void print(JsonObject event) {
    String id = event.get("id").getAsString();
    if (!seen.add(id)) {
      return;
    }
    JsonObject data = event.getAsJsonObject("data");
    String request = data.has("requestId") ? data.get("requestId").getAsString() : "";
    System.out.println(id + " " + event.get("type").getAsString() + " " + request);
  }
}
