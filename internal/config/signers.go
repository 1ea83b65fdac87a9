package config

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"time"
)

// Signer is a named holder of keys: exactly one of the pointers is set.
type Signer struct {
	Name        string
	Timeout     time.Duration
	MaxInFlight int
	PerSecond   float64 // 0: no limit
	KeysFile    string  // empty for a key store

	KeyStore      *KeyStore
	Service       *RemoteSigner
	Web3Signer    *RemoteSigner
	Clef          *RemoteSigner
	AWSKMS        *AWSKMS
	GCPKMS        *GCPKMS
	AzureKeyVault *AzureKeyVault
	PKCS11        *PKCS11
}

// KeyStore is a folder of key files.
type KeyStore struct{ Dir, PasswordFile string }

// RemoteSigner is a program that signs transactions for its clients.
type RemoteSigner struct{ URL, CAFile, CertFile, KeyFile, TokenFile string }

// AWSKMS is the key service of AWS.
type AWSKMS struct{ Region, Endpoint string }

// GCPKMS is the key service of Google Cloud.
type GCPKMS struct{ CredentialsFile string }

// AzureKeyVault is a key vault, or a managed HSM, of Azure.
type AzureKeyVault struct{ VaultURL string }

// PKCS11 is a token behind a PKCS #11 module.
type PKCS11 struct{ Module, Token, PINFile string }

// remotes returns the signers with a URL, by the name of their group.
func (s Signer) remotes() map[string]*RemoteSigner {
	all := map[string]*RemoteSigner{}
	for name, remote := range map[string]*RemoteSigner{
		"service": s.Service, "web3signer": s.Web3Signer, "clef": s.Clef,
	} {
		if remote != nil {
			all[name] = remote
		}
	}
	return all
}

// groups returns the names of the groups that are set.
func (s Signer) groups() []string {
	all := slices.Collect(maps.Keys(s.remotes()))
	for name, set := range map[string]bool{
		"keystore": s.KeyStore != nil, "aws_kms": s.AWSKMS != nil, "gcp_kms": s.GCPKMS != nil,
		"azure_keyvault": s.AzureKeyVault != nil, "pkcs11": s.PKCS11 != nil,
	} {
		if set {
			all = append(all, name)
		}
	}
	return all
}

// Group returns the name of the group that describes the holder of keys; empty in an invalid
// configuration.
func (s Signer) Group() string {
	if all := s.groups(); len(all) == 1 {
		return all[0]
	}
	return ""
}

// Secrets returns the files with secrets that other users should not read, by key below the signer.
// Key stores check theirs.
func (s Signer) Secrets() map[string]string {
	files := map[string]string{}
	add := func(key, file string) {
		if file != "" {
			files[key] = file
		}
	}
	for name, remote := range s.remotes() {
		add(name+".key_file", remote.KeyFile)
		add(name+".token_file", remote.TokenFile)
	}
	if s.GCPKMS != nil {
		add("gcp_kms.credentials_file", s.GCPKMS.CredentialsFile)
	}
	if s.PKCS11 != nil {
		add("pkcs11.pin_file", s.PKCS11.PINFile)
	}
	return files
}

func signerFields() []field[Signer] {
	return []field[Signer]{
		value("name", label(), "", "The name that submitters refer to.",
			func(s *Signer) *string { return &s.Name }).must().inFile(),
		value("timeout", span(100*time.Millisecond, 10*time.Minute), "10s",
			"Timeout of one signature. No nonce is taken while it is pending.",
			func(s *Signer) *time.Duration { return &s.Timeout }),
		value("max_in_flight", whole(1, 10_000), "32",
			"Concurrent signatures of this node. Others wait, within their timeout.",
			func(s *Signer) *int { return &s.MaxInFlight }),
		value("per_second", orZero(number(0.01, 1e6)), "0",
			"Signatures a second of this node, for a service with a quota. 0: no limit.",
			func(s *Signer) *float64 { return &s.PerSecond }),
		file("keys_file",
			"The accounts of a signer other than keystore, one per line: the address and, for "+
				"aws_kms, gcp_kms, azure_keyvault and pkcs11, the identifier of its key. "+
				"Changes apply without a restart. See docs/signers.md.",
			func(s *Signer) *string { return &s.KeysFile }),
		choice(
			"keystore",
			"A folder of V3 key files, as written by geth and `fencepost key`. Keys that are "+
				"added or removed later are noticed without a restart.",
			func(s *Signer) **KeyStore { return &s.KeyStore },
			file("dir", "The folder.", func(k *KeyStore) *string { return &k.Dir }).must(),
			file("password_file", "A file with the password, which all keys in the folder share.",
				func(k *KeyStore) *string { return &k.PasswordFile }).must(),
		),
		choice("service", "A signer of your own that implements fencepost.signer.v1.SignerService.",
			func(s *Signer) **RemoteSigner { return &s.Service }, remoteFields()...),
		choice("web3signer", "Web3Signer in its mode eth1.",
			func(s *Signer) **RemoteSigner { return &s.Web3Signer }, remoteFields()...),
		choice("clef", "clef, the signer of go-ethereum, over HTTP.",
			func(s *Signer) **RemoteSigner { return &s.Clef }, remoteFields()...),
		choice(
			"aws_kms",
			"AWS KMS. Credentials are found as by the AWS command line.",
			func(s *Signer) **AWSKMS { return &s.AWSKMS },
			value("region", matching("the name of a region, such as eu-central-1",
				`[a-z0-9-]{1,64}`), "", "The region of the keys.",
				func(k *AWSKMS) *string { return &k.Region }).must(),
			value("endpoint", httpURL(), "", "In place of the region's endpoint, for a VPC "+
				"endpoint or a test.",
				func(k *AWSKMS) *string { return &k.Endpoint }),
		),
		choice(
			"gcp_kms",
			"Google Cloud KMS.",
			func(s *Signer) **GCPKMS { return &s.GCPKMS },
			file("credentials_file", "Credentials as JSON. Default: as found in the environment.",
				func(k *GCPKMS) *string { return &k.CredentialsFile }),
		),
		choice(
			"azure_keyvault",
			"Azure Key Vault, or Managed HSM. Credentials are found as by DefaultAzureCredential.",
			func(s *Signer) **AzureKeyVault { return &s.AzureKeyVault },
			value("vault_url", httpURL(), "", "For example https://name.vault.azure.net.",
				func(k *AzureKeyVault) *string { return &k.VaultURL }).must(),
		),
		choice(
			"pkcs11",
			"A token behind a PKCS #11 module, such as an HSM. It needs a build with the tag "+
				"pkcs11.",
			func(s *Signer) **PKCS11 { return &s.PKCS11 },
			file("module", "The shared library.",
				func(k *PKCS11) *string { return &k.Module }).must(),
			value("token", matching("1 to 32 printable ASCII characters", `[ -~]{1,32}`), "",
				"The label of the token.", func(k *PKCS11) *string { return &k.Token }).must(),
			file("pin_file", "A file with the PIN of the user.",
				func(k *PKCS11) *string { return &k.PINFile }).must(),
		),
	}
}

func remoteFields() []field[RemoteSigner] {
	return []field[RemoteSigner]{
		value("url", httpURL(), "", "Its address. http is accepted for this machine only.",
			func(s *RemoteSigner) *string { return &s.URL }).must(),
		file("ca_file", "PEM file of the CA certificates that verify the signer. Default: the "+
			"system's.", func(s *RemoteSigner) *string { return &s.CAFile }),
		file("cert_file", "PEM file of this node's client certificate. It is read again for each "+
			"connection.", func(s *RemoteSigner) *string { return &s.CertFile }),
		file("key_file", "PEM file of its key.",
			func(s *RemoteSigner) *string { return &s.KeyFile }),
		file("token_file", "A file with a bearer token. It is read again for each call.",
			func(s *RemoteSigner) *string { return &s.TokenFile }),
	}
}

// httpURL parses the URL of a service. Credentials have keys of their own.
func httpURL() kind[string] {
	return kind[string]{"http or https URL", func(text string) (string, error) {
		u, err := url.Parse(text)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" ||
			u.User != nil || u.RawQuery != "" || u.Fragment != "" {
			return bad[string]("write an address such as https://signer.internal:9000",
				"not an http or https URL with a host and without credentials")
		}
		return text, nil
	}}
}

func relateSigners(r *reader, c *Config) {
	const all = "keystore, service, web3signer, clef, aws_kms, gcp_kms, azure_keyvault, pkcs11"
	for i, path := range r.elementPaths["signers"] {
		s := c.Signers[i]
		origin := r.origins[path+".name"]
		switch n := len(s.groups()); {
		case n == 0:
			r.problem(origin, path, "no holder of keys", "add one of "+all)
		case n > 1:
			r.problem(origin, path, "more than one holder of keys", "keep one of "+all)
		case s.KeyStore != nil && s.KeysFile != "":
			r.problem(r.origins[path+".keys_file"], path+".keys_file",
				"a key store has no list of keys", "delete it")
		case s.KeyStore == nil && s.KeysFile == "" && r.good(path+".keys_file"):
			r.problem(origin, path+".keys_file", "missing",
				"add it: a file with one account per line (docs/signers.md)")
		}
	}
}

func relateSignerTLS(r *reader, c *Config) {
	for i, path := range r.elementPaths["signers"] {
		for name, remote := range c.Signers[i].remotes() {
			cert, key := join(path, name)+".cert_file", join(path, name)+".key_file"
			if r.good(cert, key) && (remote.CertFile == "") != (remote.KeyFile == "") {
				r.broken(cert, key, "set both or none",
					"a client certificate and its key go together")
			}
		}
	}
}

// signerRisks looks at the connections to signers. Without encryption, another program of the
// network can use the credentials, and so the signer.
func (c *Config) signerRisks() (risks []Risk) {
	plain := func(key, text string) {
		u, err := url.Parse(text)
		if text != "" && err == nil && u.Scheme == "http" && !local(u.Hostname()) {
			risks = append(risks, Risk{key, fmt.Sprintf(
				"the connection to the signer on %s is not encrypted", u.Hostname()),
				"use https", true})
		}
	}
	for i, s := range c.Signers {
		path := c.Path("signers", i)
		for name, remote := range s.remotes() {
			plain(join(path, name)+".url", remote.URL)
		}
		if s.AWSKMS != nil {
			plain(path+".aws_kms.endpoint", s.AWSKMS.Endpoint)
		}
		if s.AzureKeyVault != nil {
			plain(path+".azure_keyvault.vault_url", s.AzureKeyVault.VaultURL)
		}
	}
	return risks
}
