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
			loser := &Rule{action: LoseReply}
			for i, kind := range []byte(tt.client) {
				if kind != '*' {
					var rule *Rule
					if i > 0 && tt.client[i-1] == '*' {
						rule = loser
					}
					x.ask(kind, rule)
				}
			}
			var passed strings.Builder
			rounds := 0
			for _, kind := range []byte(tt.server) {
				rule, through := x.answer(kind)
				if rule == nil {
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

func TestReadFrame_Invalid_Rejected(t *testing.T) {
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
	s := newStatements()
	frame := func(kind byte, text string) []byte {
		return append([]byte{kind, 0, 0, 0, 0},
			text...)
	}
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
		if m := s.learn(frame(step.kind[0], step.body)); m.SQL != step.sql ||
			m.Type != step.kind[0] {
			t.Errorf("%s %q: %+v, want %q", step.kind, step.body, m, step.sql)
		}
	}
}

func TestCommit(t *testing.T) {
	t.Parallel()
	for m, want := range map[[2]string]bool{
		{"Q", "commit"}: true, {"Q", " COMMIT ; "}: true, {"E", "Commit"}: true,
		{"P", "commit"}: false, {"Q", "commit prepared 'x'"}: false, {"Q", ""}: false,
	} {
		if Commit(Message{Type: m[0][0], SQL: m[1]}) != want {
			t.Errorf("Commit(%s %q) = %v", m[0], m[1], !want)
		}
	}
}

func TestParameters(t *testing.T) {
	t.Parallel()
	value := func(s string) string {
		return string(binary.BigEndian.AppendUint32(nil,
			uint32(len(s)))) + s
	}
	const null = "\xff\xff\xff\xff"
	for name, tt := range map[string]struct {
		bind string
		want []string
	}{
		"none": {"\x00\x00\x00\x00", nil},
		"two":  {"\x00\x00\x00\x02" + value("a") + value(""), []string{"a", ""}},
		"formats and null": {"\x00\x02\x00\x01\x00\x00\x00\x02" + null + value("b"),
			[]string{"NULL", "b"}},
		"cut in a value":  {"\x00\x00\x00\x02" + value("a") + value("bcd")[:6], []string{"a"}},
		"cut in a length": {"\x00\x00\x00\x02" + value("a") + "\x00", []string{"a"}},
		"cut in formats":  {"\x00\x09\x00", nil},
		"empty":           {"", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStatements()
			s.learn([]byte("P\x00\x00\x00\x00s\x00select\x00"))
			bind := append([]byte("B\x00\x00\x00\x00p\x00s\x00"), tt.bind...)
			for _, m := range []Message{s.learn(bind), s.learn([]byte("E\x00\x00\x00\x00p\x00"))} {
				var got []string
				for _, p := range m.Params {
					text := "NULL"
					if p != nil {
						text = string(p)
					}
					got = append(got, text)
				}
				if strings.Join(got, "|") != strings.Join(tt.want, "|") ||
					len(got) != len(tt.want) {
					t.Errorf("%c: %q, want %q", m.Type, got, tt.want)
				}
			}
		})
	}
}
