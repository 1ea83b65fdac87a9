package config

// Directory is the database in which several ledgers register their accounts. URL empty: this
// ledger is the only one.
type Directory struct {
	URL     Secret // from URLFile if that is set
	URLFile string
	Schema  string
	// accounts may move between ledgers
	AllowMoves bool
}

func directorySection() field[Config] {
	return section("directory",
		"The directory of several ledgers: see docs/ledgers.md. Only the registration of "+
			"submitters needs it. Configure all nodes of a ledger alike.",
		func(c *Config) *Directory { return &c.Directory },
		value("url", postgres(), "",
			"URL of the database that holds the directory, such as the first ledger. Not set: "+
				"there is one ledger.",
			func(d *Directory) *Secret { return &d.URL }),
		file("url_file",
			"A file that holds the URL instead, for secrets mounted into containers.",
			func(d *Directory) *string { return &d.URLFile }),
		value("schema", schemaName(), "public", "The schema of the directory's tables.",
			func(d *Directory) *string { return &d.Schema }),
		value("allow_moves", yesNo(), "false",
			"Allows \"fencepost submitter move\" to move accounts between ledgers. Only that "+
				"command reads it.",
			func(d *Directory) *bool { return &d.AllowMoves }),
	)
}

// schemaName is the name of a schema in a database.
func schemaName() kind[string] {
	return matching(`1 to 63 of a-z, 0-9 and "_", not starting with a digit`,
		`[a-z_][a-z0-9_]{0,62}`)
}
