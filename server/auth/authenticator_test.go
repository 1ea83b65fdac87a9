package auth

import (
	"context"
	"errors"
	"strings"
	"testing"

	"google.golang.org/grpc/metadata"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/server/status"
)

const (
	getTx   = pb.TxService_GetTx_FullMethodName
	watchTx = pb.TxService_WatchTx_FullMethodName
)

func withToken(ctx context.Context, token string) context.Context {
	return metadata.NewIncomingContext(ctx,
		metadata.Pairs(AuthorizationHeader, "Bearer "+token))
}

// The cost of a call does not grow with the length of its token times the number of callers. Not
// parallel: it counts the allocations of the process.
func TestAuthenticate_ManyCallers_DigestsTheTokenOnce(t *testing.T) {
	ctx := withToken(t.Context(), strings.Repeat("x", 1000))
	cost := func(n int) float64 {
		c := &callers{}
		for range n {
			c.credentials = append(c.credentials,
				credential{tokens: digests([]string{"one-0123456789abcdef"}),
					rights: Everything()})
		}
		return testing.AllocsPerRun(10, func() {
			if _, err := c.authenticate(ctx, getTx); err == nil {
				t.Error("an unknown token is accepted")
			}
		})
	}
	if few, many := cost(1), cost(100); many > few+5 {
		t.Errorf("with 1 caller a call allocates %v times, with 100 %v times", few, many)
	}
}

func TestRights_AfterAuthenticate_DoNotNeedTheToken(t *testing.T) {
	t.Parallel()
	a := NewAuthenticator([]string{"one-0123456789abcdef"}, nil)
	ctx, err := a.Authenticate(withToken(t.Context(), "one-0123456789abcdef"), getTx)
	if err != nil {
		t.Fatal(err)
	}
	ctx = metadata.NewIncomingContext(ctx, nil)
	_, unary := a.Rights(ctx, getTx)
	_, closed, stream := a.StreamRights(ctx, watchTx, func(error) {})
	if unary != nil || stream != nil {
		t.Fatalf("the token is read again: %v, %v", unary, stream)
	}
	closed()

	t.Run("callers replaced", func(t *testing.T) {
		a.SetCallers([]string{"one-0123456789abcdef"}, nil)
		if _, err := a.Rights(ctx, getTx); !errors.Is(err, status.ErrUnauthenticated) {
			t.Errorf("the former callers still count: %v", err)
		}
	})
}
