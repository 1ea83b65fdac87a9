package config

import (
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"strings"
)

// Secret is a text that prints redacted in every format.
type Secret struct{ value, shown string }

// NewSecret returns a text that prints as "[redacted]".
func NewSecret(text string) Secret { return Secret{text, "[redacted]"} }

// Reveal returns the text itself, for the code that connects.
func (s Secret) Reveal() string { return s.value }

// String returns the redacted form.
func (s Secret) String() string { return s.shown }

// Format prints the redacted form for every verb, including those that print struct fields.
func (s Secret) Format(f fmt.State, _ rune) { io.WriteString(f, s.shown) }

// LogValue returns the redacted form for slog.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.shown) }

// MarshalText returns the redacted form for encoders.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.shown), nil }

// databaseURL returns a URL whose redacted form shows the database and hides the password.
func databaseURL(u *url.URL) Secret {
	shown := *u
	if _, has := u.User.Password(); has {
		shown.User = url.UserPassword(u.User.Username(), "redacted")
	}
	query := u.Query()
	for name := range query {
		if strings.Contains(strings.ToLower(name), "password") {
			query.Set(name, "redacted")
		}
	}
	shown.RawQuery = query.Encode()
	return Secret{u.String(), shown.String()}
}
