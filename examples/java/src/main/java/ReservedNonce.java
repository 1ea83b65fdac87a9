import dev.fencepost.client.FencepostClient;
import dev.fencepost.client.NonceContext;
import dev.fencepost.client.NonceHandle;
import dev.fencepost.client.NonceResult;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Sends a transaction with a reserved nonce through a wallet (eth_sendTransaction), and waits until
 * it is final. Arguments: TARGET SUBMITTER WALLET_URL.
 */
class ReservedNonce {
    private static final Pattern HASH = Pattern.compile("\"result\":\\s*\"(0x[0-9a-f]{64})\"");

    public static void main(String[] arguments) throws Exception {
        try (FencepostClient client = FencepostClient.connect(arguments[0])) {
            NonceHandle handle = client.withNonce(arguments[1],
                n -> NonceResult.sentTx(send(arguments[2], n)));
            NonceHandle.Outcome outcome = handle.await(Duration.ofMinutes(10));
            System.out.println(outcome.nonce().getNonce() + " " + outcome.nonce().getState() + " "
                + outcome.nonce().getTxHashesList());
        }
    }

    /** Sends 1 wei to the account itself. An error does not show whether the wallet signed. */
    private static String send(String url, NonceContext n) throws Exception {
        String call = String.format(
            "{'jsonrpc':'2.0','id':1,'method':'eth_sendTransaction','params':[{'from':'%s',"
                + "'to':'%1$s','value':'0x1','nonce':'0x%x','chainId':'0x%x'}]}",
            n.from(), n.nonce(), n.chainId()).replace('\'', '"');
        HttpRequest request = HttpRequest.newBuilder(URI.create(url))
            .header("content-type", "application/json")
            .POST(HttpRequest.BodyPublishers.ofString(call)).build();
        String answer = HttpClient.newHttpClient()
            .send(request, HttpResponse.BodyHandlers.ofString()).body();
        Matcher hash = HASH.matcher(answer);
        if (!hash.find()) {
            throw new IllegalStateException("wallet: " + answer);
        }
        return hash.group(1);
    }
}
