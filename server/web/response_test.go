package web

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// busySlot refuses to build long responses.
type busySlot struct{ err error }

func (busySlot) Hold(int) error { return nil }

func (s busySlot) Build(context.Context, time.Duration) (func(), error) { return nil, s.err }

func (busySlot) Release() {}

// TestBuild_NoTurn_ListRefused: a list is not built without a turn; other reads need none.
func TestBuild_NoTurn_ListRefused(t *testing.T) {
	t.Parallel()
	busy := errors.New("busy")
	for path, want := range map[string]error{"/api/v1/tx": busy, "/api/v1/tx/by-hash/0x1": nil} {
		ran := false
		err := new(Gateway).build(&builtResponse{}, httptest.NewRequest(http.MethodGet, path, nil),
			busySlot{busy}, func(http.ResponseWriter) { ran = true })
		if !errors.Is(err, want) || ran != (want == nil) {
			t.Errorf("%s: %v, built: %t", path, err, ran)
		}
	}
}
