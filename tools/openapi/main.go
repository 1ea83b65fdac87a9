// Command openapi corrects the description of the JSON API that protoc-gen-openapiv2 writes, where it knows only how its own gateway would answer: what a watch
// streams, and which parameters each path takes. It reads the first file that it is given, and writes the second.
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

// target is what a path names, in parameters or in itself, out of what its request can name.
type target struct {
	needs  []string // parameters without which it names nothing, in their short spelling
	leaves []string // others that the node refuses there
}

// targets are the paths whose request has a field for each kind of what they name, of which a path takes one.
var targets = map[string]target{
	"/api/v1/tx/by-request": {needs: []string{"submitter", "requestId"}},
	"/api/v1/tx/by-request/events": {
		needs:  []string{"submitter", "requestId"},
		leaves: []string{"labels"},
	},
	"/api/v1/tx/by-ids/events":              {needs: []string{"txIds"}, leaves: []string{"labels"}},
	"/api/v1/tx/{txId}/events":              {leaves: []string{"labels"}},
	"/api/v1/submitters/{submitter}/events": {leaves: []string{"untilFinal"}},
	"/api/v1/events":                        {leaves: []string{"untilFinal"}},
}

// takes leaves of the parameters of an operation those that name what its path names, and those that name nothing.
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
		names := name.Value == "txId" || name.Value == "submitter"
		if message, short, nested := strings.Cut(name.Value, "."); nested &&
			(message == "request" || message == "txs") {
			names, name.Value = !slices.Contains(t.needs, short), short
			at(p, "required").Value = "true"
		}
		return names || slices.Contains(t.leaves, name.Value)
	})
}

const streamed = `description: |-
  A stream that goes on until its caller ends it, unless untilFinal does. As application/x-ndjson it is such an object a line. As text/event-stream each is the data of
  an event, whose type is event, snapshot or heartbeat; an error is an event of the type error, and its data is a Status.
schema:
  $ref: '#/definitions/WatchTxLine'`

const nothingLeft = `description: The stream has ended, and there is nothing to tell any more.`

const line = `type: object
description: 'One line of a watch: a message of it, or nothing but the error that ended it.'
allOf:
  - $ref: '#/definitions/WatchTxResponse'
  - type: object
    properties:
      error:
        $ref: '#/definitions/Status'`

// streams says what a watch answers, which is not wrapped into a result.
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
				"the stream of %s is described in another way than this program corrects; correct it in tools/openapi",
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

// read is a part of a document of ours.
func read(text string) *yaml.Node {
	var part yaml.Node
	if err := yaml.Unmarshal([]byte(text), &part); err != nil {
		panic(err) // a text of this file
	}
	return part.Content[0]
}

// at finds what is under names, of which each is a key of a mapping; nil if there is no such thing.
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
