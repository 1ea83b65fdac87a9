package main

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/fencepost/fencepost/internal/clock"
)

// supervisor is the service manager that started the program, as systemd describes it in the
// environment (sd_notify). Without one, nothing is sent.
type supervisor struct {
	socket   string        // empty: none
	interval time.Duration // between two signs of life; 0: none are expected
}

func supervisorOf(environ []string) (s supervisor) {
	for _, variable := range environ {
		switch name, value, _ := strings.Cut(variable, "="); name {
		case "NOTIFY_SOCKET":
			s.socket = value
		case "WATCHDOG_USEC":
			// Half of the limit, as sd_watchdog_enabled(3) recommends.
			if us, err := strconv.ParseInt(value, 10, 64); err == nil && us > 0 {
				s.interval = time.Duration(us) * time.Microsecond / 2
			}
		}
	}
	if strings.HasPrefix(s.socket, "@") { // abstract
		s.socket = "\x00" + s.socket[1:]
	}
	return s
}

// notify sends a state, such as READY=1.
func (s supervisor) notify(state string) error {
	if s.socket == "" {
		return nil
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: s.socket, Net: "unixgram"})
	if err != nil {
		return fmt.Errorf("notify systemd: %w", err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte(state)); err != nil {
		return fmt.Errorf("notify systemd: %w", err)
	}
	return nil
}

// watch sends signs of life while progress reports no error, until ctx ends. Without them the
// service manager restarts the program.
func (s supervisor) watch(ctx context.Context, c clock.Clock, progress func() error,
	warn func(error)) {
	if s.socket == "" || s.interval == 0 {
		return
	}
	for clock.Sleep(ctx, c, s.interval) == nil {
		err := progress()
		if err == nil {
			err = s.notify("WATCHDOG=1")
		}
		if err != nil {
			warn(err)
		}
	}
}
