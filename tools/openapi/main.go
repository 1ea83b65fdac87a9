// Command openapi corrects the OpenAPI description written by protoc-gen-openapiv2 where it assumes
// the behaviour of its own gateway: the stream of a watch, and the parameters of each path. It
// reads the first file argument and writes the second.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"log"
	"os"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) != 3 {
		log.Fatal("usage: openapi FROM TO")
	}
	if err := correct(os.Args[1], os.Args[2]); err != nil {
		log.Fatalf("openapi: %v", err)
	}
}

func correct(from, to string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	var whole yaml.Node
	if err := yaml.Unmarshal(text, &whole); err != nil {
		return fmt.Errorf("%s: %w", from, err)
	}
	if len(whole.Content) != 1 {
		return fmt.Errorf("%s: is empty", from)
	}
	for path, with := range targets {
		operation := at(whole.Content[0], "paths", path, "get")
		if operation == nil {
			return fmt.Errorf(
				"%s: has no GET %s; correct targets in tools/openapi, or the contract", from, path)
		}
		takes(operation, with)
	}
	if err := streams(whole.Content[0]); err != nil {
		return fmt.Errorf("%s: %w", from, err)
	}
	written := &bytes.Buffer{}
	encoder := yaml.NewEncoder(written)
	encoder.SetIndent(2)
	if err := errors.Join(encoder.Encode(&whole), encoder.Close()); err != nil {
		return err
	}
	return os.WriteFile(to, written.Bytes(), 0o644)
}

// target lists the parameters that select the target of a path.
type target struct {
	needs  []string // required parameters, without the prefix of their message
	leaves []string // other parameters, which the node rejects
}

// targets holds the paths whose request has a oneof of targets; each path takes one of them.
var targets = map[string]target{
	"/api/v1/tx/by-request": {
		needs:  []string{"submitter", "requestId"},
		leaves: []string{"hash"},
	},
	"/api/v1/tx/by-request/events": {
		needs:  []string{"submitter", "requestId"},
		leaves: []string{"labels", "accountEvents"},
	},
	"/api/v1/tx/by-ids/events": {
		needs:  []string{"txIds"},
		leaves: []string{"labels", "accountEvents"},
	},
	"/api/v1/tx/{txId}/events":              {leaves: []string{"labels", "accountEvents"}},
	"/api/v1/submitters/{submitter}/events": {leaves: []string{"untilFinal"}},
	"/api/v1/pools/{pool}/events":           {leaves: []string{"untilFinal", "accountEvents"}},
	"/api/v1/events":                        {leaves: []string{"untilFinal"}},
}

// takes removes the parameters that repeat the target in the path, and those that select nothing.
func takes(operation *yaml.Node, t target) {
	parameters := at(operation, "parameters")
	if parameters == nil {
		return
	}
	parameters.Content = slices.DeleteFunc(parameters.Content, func(p *yaml.Node) bool {
		if at(p, "in").Value != "query" {
			return false
		}
		name := at(p, "name")
		names := name.Value == "txId" || name.Value == "submitter" || name.Value == "pool"
		if message, short, nested := strings.Cut(name.Value, "."); nested &&
			(message == "request" || message == "txs") {
			names, name.Value = !slices.Contains(t.needs, short), short
			at(p, "required").Value = "true"
		}
		return names || slices.Contains(t.leaves, name.Value)
	})
}

const streamed = `description: |-
  A stream that continues until the client or untilFinal ends it. With application/x-ndjson, each
  line is such an object. With text/event-stream, each object is the data of an event of type
  event, snapshot or heartbeat; an error is an event of type error, with a Status as data.
schema:
  $ref: '#/definitions/WatchTxLine'`

const nothingLeft = `description: The stream has ended.`

const line = `type: object
description: 'One line of a watch: a message, or only the error that ended it.'
allOf:
  - $ref: '#/definitions/WatchTxResponse'
  - type: object
    properties:
      error:
        $ref: '#/definitions/Status'`

// streams corrects the response of a watch, which is not wrapped in a result.
func streams(whole *yaml.Node) error {
	paths := at(whole, "paths")
	for i := 1; i < len(paths.Content); i += 2 {
		if id := at(paths.Content[i], "get", "operationId"); id == nil ||
			!strings.HasPrefix(id.Value, "TxService_WatchTx") {
			continue
		}
		responses := at(paths.Content[i], "get", "responses")
		if at(responses, "200", "schema", "properties", "result") == nil {
			return fmt.Errorf(
				"correct the stream of %s: unknown description; update tools/openapi",
				paths.Content[i-1].Value)
		}
		*at(responses, "200") = *read(streamed)
		responses.Content = slices.Insert(responses.Content, 2,
			&yaml.Node{Kind: yaml.ScalarNode, Value: "204", Style: yaml.DoubleQuotedStyle},
			read(nothingLeft))
	}
	definitions := at(whole, "definitions")
	definitions.Content = append(definitions.Content,
		&yaml.Node{Kind: yaml.ScalarNode, Value: "WatchTxLine"}, read(line))
	return nil
}

// read parses a constant of this file.
func read(text string) *yaml.Node {
	var part yaml.Node
	if err := yaml.Unmarshal([]byte(text), &part); err != nil {
		panic(err)
	}
	return part.Content[0]
}

// at returns the node under a path of mapping keys, or nil.
func at(node *yaml.Node, names ...string) *yaml.Node {
	for _, name := range names {
		if node == nil {
			return nil
		}
		i := 0
		for i+1 < len(node.Content) && node.Content[i].Value != name {
			i += 2
		}
		if i+1 >= len(node.Content) {
			return nil
		}
		node = node.Content[i+1]
	}
	return node
}
