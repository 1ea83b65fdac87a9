package config

// Console is the web console.
type Console struct{ Enabled bool }

func consoleFields() []field[Console] {
	return []field[Console]{
		value("enabled", yesNo(), "false",
			"Serve the web console at /console/ on grpc.listen. Its pages call the API as any "+
				"client, so users need a token or a certificate of a caller. They do not need an "+
				"entry in grpc.allowed_origins.",
			func(c *Console) *bool { return &c.Enabled }),
	}
}
