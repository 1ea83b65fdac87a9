package dev.fencepost.client;

import io.grpc.ChannelCredentials;
import io.grpc.TlsChannelCredentials;

import java.io.ByteArrayInputStream;
import java.io.IOException;

/**
 * Authenticates the node, and optionally the client. Certificates and keys are in PEM form.
 *
 * @param ca the trusted certificates; null for the Java runtime's
 * @param certificate authenticates the client, together with key, for nodes that require it; else
 *     null
 * @param key the key of the certificate, in PKCS#8; else null
 * @param serverName the name required in the node's certificate; null for the host of the target
 */
public record Tls(byte[] ca, byte[] certificate, byte[] key, String serverName) {
    /** Encrypts, and trusts the Java runtime's certificates. */
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
                    throw new IllegalArgumentException(
                            "certificate and key must be set together; set both");
                }
                builder.keyManager(
                        new ByteArrayInputStream(certificate), new ByteArrayInputStream(key));
            }
            return builder.build();
        } catch (IOException e) {
            throw new IllegalArgumentException(
                    "the TLS options cannot be read; give PEM texts of certificates, and a key in"
                            + " PKCS#8",
                    e);
        }
    }
}
