// Package remedy separates the cause of an error from its remedy, for an operator.
package remedy

import (
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strings"
)

type failure struct {
	cause  error
	remedy string
}

func (f *failure) Error() string { return f.cause.Error() + "; " + f.remedy }

func (f *failure) Unwrap() error { return f.cause }

// Errorf returns an error with a remedy. The format describes the cause, as for fmt.Errorf; the
// text of the error is "cause; remedy".
func Errorf(remedy, format string, args ...any) error {
	return &failure{fmt.Errorf(format, args...), remedy}
}

// OfFile returns the remedy of a file that could not be read.
func OfFile(err error) string {
	if errors.Is(err, fs.ErrNotExist) {
		return "create it, or name another"
	}
	return "make it readable for this user, or name another"
}

// Of returns the cause of an error, with the context that was added in front of it, and the remedy.
// The remedy is empty if the error has none.
func Of(err error) (cause, remedy string) {
	var f *failure
	if !errors.As(err, &f) {
		return err.Error(), ""
	}
	return strings.TrimSuffix(err.Error(), "; "+f.remedy), f.remedy
}

// packages match the names of packages that begin an error, also in the middle of a text.
var packages = regexp.MustCompile(`(^|: |\n)(?:(?:archive|audit|config|console|devchain|` +
	`engine|funds|pgembed|port|run|server|sign|sink|store|telemetry|track|txn): )+`)

// WithoutPackages returns the text of an error for an operator, who does not know the packages that
// its parts come from.
func WithoutPackages(text string) string { return packages.ReplaceAllString(text, "$1") }
