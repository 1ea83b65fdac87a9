package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/term"

	"github.com/fencepost/fencepost/sign"
)

// newPassword is the password for a new key file: from the file, or typed twice.
func (p *program) newPassword(ctx context.Context, file string) (string, error) {
	if file != "" {
		return sign.ReadPassword(file)
	}
	password, err := p.prompt(ctx, "Password for the key file: ")
	if err != nil {
		return "", err
	}
	again, err := p.prompt(ctx, "Repeat password: ")
	if err != nil {
		return "", err
	}
	if password != again {
		return "", errors.New("passwords differ; nothing changed, try again")
	}
	return password, nil
}

// promptTerminal asks on the terminal itself, because standard input may be a pipe. It restores the
// terminal before it returns, also if ctx ended; the pending read is then left until the process
// ends.
func promptTerminal(ctx context.Context, question string) (string, error) {
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return "", errors.New(
			"no terminal for the prompt; give --password-file")
	}
	defer tty.Close()
	fd := int(tty.Fd())
	before, err := term.MakeRaw(fd)
	if err != nil {
		return "", fmt.Errorf("turn the terminal's echo off: %w", err)
	}
	defer term.Restore(fd, before)
	type answer struct {
		text string
		err  error
	}
	got := make(chan answer, 1)
	go func() {
		text, err := term.NewTerminal(tty, "").ReadPassword(question)
		got <- answer{text, err}
	}()
	select {
	case a := <-got:
		if a.err != nil { // Ctrl-C, Ctrl-D, or a terminal that went away
			fmt.Fprint(tty, "\r\n")
			return "", errors.New("no input; nothing changed")
		}
		return a.text, nil
	case <-ctx.Done():
		fmt.Fprint(tty, "\r\n")
		return "", fmt.Errorf("%w; nothing changed", context.Cause(ctx))
	}
}

func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }
