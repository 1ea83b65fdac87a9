package fencepost_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// The client depends on gRPC and protobuf, and not on the server.
func TestDependencies(t *testing.T) {
	t.Parallel()
	allowed := []string{
		"github.com/fencepost/fencepost/clients/go", "github.com/fencepost/fencepost/gen/go",
		"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go",
		"google.golang.org/grpc", "google.golang.org/protobuf",
		"google.golang.org/genproto/googleapis/rpc", "google.golang.org/genproto/googleapis/api",
		"golang.org/x/net", "golang.org/x/sys", "golang.org/x/text",
	}
	for _, m := range listed(t, "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", ".") {
		if !slices.Contains(allowed, m) {
			t.Errorf("the client is linked with %s", m)
		}
	}
	for _, m := range listed(t, "list", "-m", "-f", "{{.Path}}", "all") {
		if m == "github.com/fencepost/fencepost" || strings.Contains(m, "ethereum") ||
			strings.Contains(m, "pgx") ||
			strings.Contains(m, "goose") {
			t.Errorf("the module brings %s", m)
		}
	}
}

func listed(t *testing.T, arguments ...string) []string {
	t.Helper()
	out, err := exec.Command("go", arguments...).Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Fields(string(out))
	if len(lines) == 0 {
		t.Fatalf("go %v lists nothing", arguments)
	}
	return lines
}
