package config

// Intents configures the authentication codes of intents.
type Intents struct {
	KeyFile string // empty: no codes
	Require bool
}

func intentsSection() field[Config] {
	return section("intents",
		"Authentication codes (HMAC) of transactions, under a key that the database does not "+
			"have: see docs/audit.md. Configure all nodes alike.",
		func(c *Config) *Intents { return &c.Intents },
		file("key_file",
			"File with the key: 32 to 512 letters, digits and ._~+/=-, such as from openssl rand "+
				"-hex 32. Not set: no codes.",
			func(i *Intents) *string { return &i.KeyFile }),
		value("require", yesNo(), "false",
			"Also refuses transactions without a code. Set it once all queued transactions were "+
				"created with a key. If false, only wrong codes are refused.",
			func(i *Intents) *bool { return &i.Require }),
	)
}

// relateIntents requires a key where codes are required.
func relateIntents(r *reader, c *Config) {
	const require, key = "intents.require", "intents.key_file"
	if r.good(require, key) && c.Intents.Require && c.Intents.KeyFile == "" {
		r.problem(r.origins[require], key, "it is missing", "set it, or set intents.require to "+
			"false")
	}
}
