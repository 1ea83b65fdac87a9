package dev.fencepost.client;

import io.grpc.ChannelCredentials;
import io.grpc.TlsChannelCredentials;
import java.io.ByteArrayInputStream;
import java.io.IOException;

/**
 * Says who the node must be, and who the client is. Certificates and keys are in PEM form.
 *
 * @param ca the certificates to trust; null trusts those of the Java runtime
 * @param certificate proves, with key, who the client is, for nodes that ask; else null
 * @param key the key of the certificate, in PKCS#8; else null
 * @param serverName the name that the node's certificate must bear; null is the host of the target
 */
public record Tls(byte[] ca, byte[] certificate, byte[] key, String serverName) {
    /** Encrypts, and trusts whom the Java runtime trusts. */
    public Tls() {
        this(null, null, null, null);
    }

    /** Encrypts, and trusts these certificates. */
    public Tls(byte[] ca) {
        this(ca, null, null, null);
    }

    ChannelCredentials credentials() {
        TlsChannelCredentials.Builder builder = TlsChannelCredentials.newBuilder();
        try {
            if (ca != null) {
                builder.trustManager(new ByteArrayInputStream(ca));
            }
            if (certificate != null || key != null) {
                if (certificate == null || key == null) {
                    throw new IllegalArgumentException("a certificate needs its key, and a key its certificate; give both");
                }
                builder.keyManager(new ByteArrayInputStream(certificate), new ByteArrayInputStream(key));
            }
            return builder.build();
        } catch (IOException e) {
            throw new IllegalArgumentException("the TLS options cannot be read; give PEM texts of certificates, and a key in PKCS#8", e);
        }
    }
}
