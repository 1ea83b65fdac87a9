package schema_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// asyncAPISchema is AsyncAPI's own schema of documents.
const asyncAPISchema = "http://asyncapi.com/definitions/3.0.0/asyncapi.json"

func asyncAPIRules(t *testing.T) *jsonschema.Schema {
	t.Helper()
	text, err := os.ReadFile("../../third_party/asyncapi/3.0.0.json")
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource(asyncAPISchema, parsed); err != nil {
		t.Fatal(err)
	}
	rules, err := c.Compile(asyncAPISchema)
	if err != nil {
		t.Fatal(err)
	}
	return rules
}

// readAsyncAPI returns docs/asyncapi.json.
func readAsyncAPI(t *testing.T) map[string]any {
	t.Helper()
	text, err := os.ReadFile("../../docs/asyncapi.json")
	if err != nil {
		t.Fatal(err)
	}
	var d map[string]any
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// at returns the object at a path of keys.
func at(o any, path ...string) map[string]any {
	for _, key := range path {
		o = o.(map[string]any)[key]
	}
	return o.(map[string]any)
}

// TestAsyncAPI_Document_FollowsItsSchema: docs/asyncapi.json is valid by AsyncAPI's own schema, and
// documents with a mistake are not.
func TestAsyncAPI_Document_FollowsItsSchema(t *testing.T) {
	t.Parallel()
	rules := asyncAPIRules(t)
	if err := rules.Validate(readAsyncAPI(t)); err != nil {
		t.Error(err)
	}
	for name, spoil := range map[string]func(d map[string]any){
		"no title":          func(d map[string]any) { delete(at(d, "info"), "title") },
		"other version":     func(d map[string]any) { d["asyncapi"] = "2.6.0" },
		"unknown field":     func(d map[string]any) { d["topics"] = map[string]any{} },
		"field of channels": func(d map[string]any) { at(d, "channels", "kafka")["topic"] = "x" },
		"unknown action": func(d map[string]any) {
			for _, o := range at(d, "operations") {
				at(o)["action"] = "publish"
			}
		},
		"no channel": func(d map[string]any) {
			for _, o := range at(d, "operations") {
				delete(at(o), "channel")
			}
		},
		"headers that are no schema": func(d map[string]any) {
			at(d, "components", "messages", "kafka-binary")["headers"] = "ce_id"
		},
	} {
		d := readAsyncAPI(t)
		spoil(d)
		if rules.Validate(d) == nil {
			t.Errorf("%s: it is valid", name)
		}
	}
}

// TestAsyncAPI_References_Resolve: each reference names a part of the document or of the schema of
// events.
func TestAsyncAPI_References_Resolve(t *testing.T) {
	t.Parallel()
	d := readAsyncAPI(t)
	text, err := os.ReadFile("../../docs/event.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	var events map[string]any
	if err := json.Unmarshal(text, &events); err != nil {
		t.Fatal(err)
	}
	found := 0
	var walk func(any)
	walk = func(part any) {
		object, is := part.(map[string]any)
		if !is {
			return // the document has no references in arrays
		}
		for key, value := range object {
			reference, is := value.(string)
			if key != "$ref" || !is {
				walk(value)
				continue
			}
			found++
			file, pointer, _ := strings.Cut(reference, "#")
			if strings.HasSuffix(file, ".proto") {
				if _, err := os.Stat(filepath.Join("../../docs", file)); err != nil {
					t.Error(err)
				}
				continue
			}
			from := map[string]map[string]any{"": d, "./event.schema.json": events}[file]
			for name := range strings.SplitSeq(strings.Trim(pointer, "/"), "/") {
				if name != "" {
					from, _ = from[name].(map[string]any)
				}
			}
			if from == nil {
				t.Errorf("%s names nothing", reference)
			}
		}
	}
	walk(d)
	if found == 0 {
		t.Error("there is no reference")
	}
}
