package chain

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"github.com/fencepost/fencepost/chain/outcome"
	"github.com/fencepost/fencepost/internal/remedy"
)

// maxABI limits an ABI file, in bytes. The largest compiler artifacts, with all bytecode, are far
// smaller.
const maxABI = 16 << 20

// LoadErrors reads the custom errors of ABI files. See outcome.Errors.Add for the formats.
func LoadErrors(files ...string) (*outcome.Errors, error) {
	e := new(outcome.Errors)
	for _, name := range files {
		if err := load(e, name); err != nil {
			advice := "use a JSON ABI or a compiler artifact with one"
			if _, ok := errors.AsType[syscall.Errno](err); ok {
				advice = remedy.OfFile(err)
			}
			return nil, remedy.Errorf(advice, "ABI file %s: %w", name, err)
		}
	}
	return e, nil
}

func load(e *outcome.Errors, name string) error {
	file, err := os.Open(name)
	if err != nil {
		return errors.Unwrap(err) // the caller adds the name
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxABI+1))
	switch {
	case err != nil:
		return errors.New("cannot read file")
	case len(text) > maxABI:
		return fmt.Errorf("larger than %d bytes", maxABI)
	}
	return e.Add(text)
}
