package sink

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
)

// checkEvent checks a delivery of eventOf(1, 1) in any format.
func checkEvent(r *http.Request, body []byte) error {
	want := eventOf(1, 1).Content
	got := &pb.SinkEvent{}
	attributes := map[string]string{}
	for name := range r.Header {
		if attribute, is := strings.CutPrefix(name, "Ce-"); is {
			text, err := url.PathUnescape(r.Header.Get(name))
			if err != nil {
				return err
			}
			attributes[strings.ToLower(attribute)] = text
		}
	}
	var err error
	switch kind := r.Header.Get("Content-Type"); kind {
	case "application/protobuf":
		err = proto.Unmarshal(body, got)
	case "application/json":
		err = protojson.Unmarshal(body, got)
	case "application/cloudevents+json; charset=UTF-8":
		all := map[string]json.RawMessage{}
		err = errors.Join(json.Unmarshal(body, &all), protojson.Unmarshal(all["data"], got))
		for name, raw := range all {
			var text string
			if name != "data" && json.Unmarshal(raw, &text) == nil {
				attributes[name] = text
			}
		}
	default:
		return fmt.Errorf("content type %q", kind)
	}
	if err != nil {
		return err
	}
	if !proto.Equal(got, want) {
		return fmt.Errorf("content %v, want %v", got, want)
	}
	for name, value := range map[string]string{"specversion": "1.0", "id": want.GetId(),
		"source": "urn:test", "type": "dev.fencepost.tx.included", "requestid": "ordér 1",
		"subject": want.GetEvent().GetTxId(), "time": "2023-11-14T22:13:20.000005Z",
		"submitter": "alice", "sequence": "00000000000000000001"} {
		if attributes[name] != value {
			return fmt.Errorf("attribute %s is %q, want %q", name, attributes[name], value)
		}
	}
	return nil
}
