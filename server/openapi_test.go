package server

import (
	"encoding/json"
	"net/url"
	"os"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// schema describes an object of the JSON API.
type schema struct {
	Ref        string            `yaml:"$ref"`
	AllOf      []schema          `yaml:"allOf"`
	Properties map[string]schema `yaml:"properties"`
}

type described struct {
	Paths map[string]struct {
		Get *struct {
			ID         string `yaml:"operationId"`
			Parameters []struct {
				Name, In string
				Required bool
			}
			Responses map[string]struct{ Schema schema }
		}
	}
	Definitions map[string]schema
}

// names returns the names of all fields of an object.
func (d *described) names(of schema) map[string]bool {
	all := map[string]bool{}
	for name := range of.Properties {
		all[name] = true
	}
	parts := of.AllOf
	if name, isRef := strings.CutPrefix(of.Ref, "#/definitions/"); isRef {
		parts = append(parts, d.Definitions[name])
	}
	for _, part := range parts {
		for name := range d.names(part) {
			all[name] = true
		}
	}
	return all
}

// A client generated from the description can decode every line of a watch, and offers no parameter
// that the node rejects.
func TestOpenAPI_Watch_Described(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var d described
	if err := yaml.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	h := newHarness(t)
	h.register("alice")
	_, _, err = h.store.CreatePool(h.ctx, "pay", chainID)
	h.must(err)
	n := h.serve()
	id := n.create("alice", "r1").GetTxId()
	samples := map[string]string{
		"txId":       id,
		"txIds":      id,
		"submitter":  "alice",
		"pool":       "pay",
		"requestId":  "r1",
		"untilFinal": "true",
		"heartbeat":  "5s",
		"labels":     "a=b",
		"states":     "TX_STATE_QUEUED",

		"accountEvents": "true",
		"resumeToken":   "",
		"view":          "TX_VIEW_BASIC",
	}
	watches := 0
	for path, operations := range d.Paths {
		if path != "/api/v1/tx/by-request" &&
			(operations.Get == nil || !strings.HasPrefix(operations.Get.ID, "TxService_WatchTx")) {
			continue
		}
		watches++
		fields, needed := d.names(operations.Get.Responses["200"].Schema), url.Values{}
		at := strings.NewReplacer("{txId}", id, "{submitter}", "alice",
			"{pool}", "pay").Replace(path)
		for _, p := range operations.Get.Parameters {
			if p.In == "query" && p.Required {
				needed.Set(p.Name, samples[p.Name])
			}
		}
		for _, p := range operations.Get.Parameters {
			sample, known := samples[p.Name]
			if !known {
				t.Errorf("%s: %s is no parameter of any watch", path, p.Name)
			}
			query, _ := url.ParseQuery(needed.Encode())
			if p.In == "query" && (sample != "" || p.Required) {
				query.Set(p.Name, sample)
			}
			l := n.stream(at + "?" + query.Encode())
			line, _ := l.next()
			var got map[string]json.RawMessage
			if err := json.Unmarshal([]byte(line), &got); err != nil || l.code != 200 {
				t.Errorf("%s?%s: %d %s (%v)", path, query.Encode(), l.code, line, err)
			}
			for name := range got {
				if !fields[name] {
					t.Errorf("%s returns %s, in which %q is not described (%v)", path, line, name,
						fields)
				}
			}
			l.body.Close()
		}
		if path != "/api/v1/tx/by-request" && !fields["error"] {
			t.Errorf("%s: the error that ends a stream is not described", path)
		}
	}
	if watches != 7 {
		t.Errorf("%d paths checked, want 7", watches)
	}
}
