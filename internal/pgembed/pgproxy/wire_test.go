package pgproxy

import (
	"encoding/binary"
	"strings"
	"testing"
)

// Letters of a client's messages, the one that is to be lost in capitals after a
// star, and of the server's answers, with those that must be lost marked.
func TestExchange(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		client string // * before the message whose answer is lost
		server string
		passed string
	}{
		"simple query":         {"*Q", "TDDCZ", ""},
		"second simple query":  {"Q*Q", "TDCZTDCZ", "TDCZ"},
		"several in one query": {"Q", "CTDCCZ", "CTDCCZ"},
		"execute":              {"PBD*ES", "12nCZ", "12n"},
		"sync":                 {"PBDE*S", "12TDDCZ", "12TDDC"},
		"describe a statement": {"PD*S", "1tTZ", "1tT"},
		"second of a pipeline": {"BESB*ESBES", "2CZ2CZ2CZ", "2CZ2"},
		"portal that goes on":  {"E*ES", "DDsDCZ", "DDs"},
		"empty statement":      {"PBE*PS", "12I1Z", "12I"},
		"close":                {"C*ES", "3CZ", "3"},
		"function":             {"F*Q", "VZCZ", "VZ"},
		"error before":         {"PB*ES", "1EZ", "1"},
		"error in the round before": {
			"PBESB*ES", "1EZ2CZ", "1EZ2",
		},
		"error at the end":     {"BE*S", "2CEZ", "2C"},
		"copy":                 {"Q*Q", "GCZGCZ", "GCZ"},
		"notices and settings": {"BE*S", "NS2NDCZ", "NS2NDC"},
		"greeting":             {"", "RSSKZ", "RSSKZ"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var x exchange
			for i, kind := range []byte(tt.client) {
				if kind != '*' {
					x.ask(kind, i > 0 && tt.client[i-1] == '*')
				}
			}
			var passed strings.Builder
			rounds := 0
			for _, kind := range []byte(tt.server) {
				lost, through := x.answer(kind)
				if !lost {
					passed.WriteByte(kind)
				}
				if through {
					rounds++
				}
			}
			if passed.String() != tt.passed {
				t.Errorf("passed %s, want %s", &passed, tt.passed)
			}
			if want := strings.Count(tt.server, "Z"); len(tt.client) > 0 && rounds != want {
				t.Errorf("%d rounds, want %d", rounds, want)
			}
		})
	}
}

func TestFramesOfNonsense(t *testing.T) {
	t.Parallel()
	for _, size := range []uint32{0, 3, frameLimit + 1, 1<<32 - 1} {
		b := binary.BigEndian.AppendUint32([]byte{'Q'}, size)
		if _, err := readFrame(strings.NewReader(string(b))); err == nil {
			t.Errorf("a message of %d bytes was read", size)
		}
		if _, _, err := readStartup(strings.NewReader(string(b[1:]) + "abcd")); err == nil {
			t.Errorf("a startup message of %d bytes was read", size)
		}
	}
}

func TestStatements(t *testing.T) {
	t.Parallel()
	s := statements{prepared: map[string]string{}, portals: map[string]string{}}
	frame := func(kind byte, text string) []byte { return append([]byte{kind, 0, 0, 0, 0}, text...) }
	for _, step := range []struct{ kind, body, sql string }{
		{"P", "a\x00select 1\x00\x00\x00", "select 1"},
		{"P", "\x00select 2\x00\x00\x00", "select 2"},
		{"D", "Sa\x00", "select 1"},
		{"B", "p\x00a\x00", "select 1"},
		{"B", "\x00\x00", "select 2"},
		{"E", "p\x00", "select 1"},
		{"E", "\x00", "select 2"},
		{"D", "Pp\x00", "select 1"},
		{"Q", "commit\x00", "commit"},
		{"S", "", ""},
		{"D", "", ""},
	} {
		if m := s.learn(frame(step.kind[0], step.body)); m.SQL != step.sql || m.Type != step.kind[0] {
			t.Errorf("%s %q: %+v, want %q", step.kind, step.body, m, step.sql)
		}
	}
}

func TestCommit(t *testing.T) {
	t.Parallel()
	for m, want := range map[Message]bool{
		{'Q', "commit"}: true, {'Q', " COMMIT ; "}: true, {'E', "Commit"}: true,
		{'P', "commit"}: false, {'Q', "commit prepared 'x'"}: false, {'Q', ""}: false,
	} {
		if Commit(m) != want {
			t.Errorf("Commit(%c %q) = %v", m.Type, m.SQL, !want)
		}
	}
}
