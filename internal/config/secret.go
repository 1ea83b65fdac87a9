package config

import (
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"strings"
)

// Secret is a text that prints as something harmless, however it is printed.
type Secret struct{ value, shown string }

// NewSecret keeps a text that prints as "[redacted]".
func NewSecret(text string) Secret { return Secret{text, "[redacted]"} }

// Reveal is the text itself, for whoever needs it to open a door.
func (s Secret) Reveal() string { return s.value }

// String is what may be shown.
func (s Secret) String() string { return s.shown }

// Format shows the same for every verb, also for those that would look into the struct.
func (s Secret) Format(f fmt.State, _ rune) { io.WriteString(f, s.shown) }

// LogValue shows the same to slog.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.shown) }

// MarshalText shows the same to encoders.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.shown), nil }

// databaseURL shows where the database is and hides how to get in.
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
