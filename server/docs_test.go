package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/server/status"
	"github.com/fencepost/fencepost/server/web"
)

// docs/errors.md lists every reason with its codes and a remedy.
func TestErrorsDoc_ListsEveryReason(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/errors.md")
	if err != nil {
		t.Fatal(err)
	}
	type row struct{ code, http, message string }
	rows := map[string]row{}
	line := regexp.MustCompile(`(?m)^\| ([A-Z_]+) \| ([A-Z_]+) \| (\d+) \| (.*) \|$`)
	for _, m := range line.FindAllStringSubmatch(string(text), -1) {
		rows[m[1]] = row{m[2], m[3], m[4]}
	}
	values := pb.ErrorReason(0).Descriptor().Values()
	for i := 1; i < values.Len(); i++ {
		name := status.ReasonName(pb.ErrorReason(values.Get(i).Number()))
		r, ok := rows[name]
		if !ok {
			t.Errorf("%s is not in the table", name)
			continue
		}
		var code codes.Code
		if err := code.UnmarshalJSON([]byte(`"` + r.code + `"`)); err != nil ||
			fmt.Sprint(web.HTTPStatus(code)) != r.http {
			t.Errorf("%s: %s is not %s over HTTP (%v)", name, r.code, r.http, err)
		}
		if len(strings.Split(strings.TrimSuffix(r.message, "."), ". ")) < 2 {
			t.Errorf("%s has no remedy: %q", name, r.message)
		}
	}
	if len(rows) != values.Len()-1 {
		t.Errorf("%d rows, want %d", len(rows), values.Len()-1)
	}
}

// A node returns the example of docs/errors.md.
func TestErrorsDoc_Example(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/errors.md")
	if err != nil {
		t.Fatal(err)
	}
	_, example, _ := strings.Cut(string(text), "```json\n")
	example, _, _ = strings.Cut(example, "```")
	got := newHarness(t).serve().http("POST", "/api/v1/tx",
		fmt.Sprintf(`{"submitter":"bob","requestId":"r","payload":{"to":"0x%040x"}}`, 1))
	var want, returned any
	if err := errors.Join(json.Unmarshal([]byte(example), &want),
		json.Unmarshal(got.body, &returned)); err != nil || !reflect.DeepEqual(want, returned) {
		t.Errorf("%v: the example is\n%s\nand a node returns\n%s", err, example, got.body)
	}
}

func TestAPIDoc_ListsEveryMethodAndField(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files() {
		for i := range file.Services().Len() {
			for j := range file.Services().Get(i).Methods().Len() {
				name := file.Services().Get(i).Methods().Get(j).Name()
				_, section, found := strings.Cut(string(text), "\n### "+string(name)+"\n")
				section, _, _ = strings.Cut(section, "\n### ")
				if !found || !strings.Contains(section, " /api/v1/") {
					t.Errorf("%s has no path in the reference", name)
				}
			}
		}
		for i := range file.Messages().Len() {
			message := file.Messages().Get(i)
			_, section, _ := strings.Cut(string(text), "\n### "+string(message.Name())+"\n")
			section, _, _ = strings.Cut(section, "\n### ")
			for j := range message.Fields().Len() {
				if name := message.Fields().Get(j).Name(); !strings.Contains(section,
					"\n| "+string(name)+" | ") {
					t.Errorf("%s.%s is not in the reference", message.Name(), name)
				}
			}
		}
	}
}
