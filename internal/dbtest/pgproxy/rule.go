package pgproxy

import (
	"slices"
	"strings"
	"sync"
)

// Message is one from a client.
type Message struct {
	// Type is its letter on the wire: Q for a simple query, P, B, D, E, S for the
	// steps of an extended one (Parse, Bind, Describe, Execute, Sync), and so on.
	Type byte
	// SQL is the text of the statement that it is about; empty for one that is
	// about none, such as Sync.
	SQL string
	// Params are the values of a Bind and of the Executes that follow it, as they
	// are on the wire; nil for NULL.
	Params [][]byte
}

// Runs reports whether the message makes the server execute its statement.
func (m Message) Runs() bool { return m.Type == 'Q' || m.Type == 'E' }

// Match chooses messages.
type Match func(Message) bool

// Commit matches the message that commits a transaction by the word.
func Commit(m Message) bool {
	return m.Runs() && strings.EqualFold(strings.Trim(m.SQL, " \t\r\n;"), "commit")
}

// Running matches the message that runs a statement whose text contains a part.
func Running(part string) Match {
	return func(m Message) bool { return m.Runs() && strings.Contains(m.SQL, part) }
}

// Action is the treatment of a message.
type Action int

const (
	// LoseReply lets the server execute everything up to the client's next Sync, keeps every byte
	// of the answers to this and the following messages from the client, and closes the connection
	// once the server has finished. Answers to earlier messages still arrive.
	LoseReply Action = iota
	// CutMidway cuts the connection after the message's first byte.
	CutMidway
	// HoldBefore keeps back the message, and all that follows on the connection,
	// until Release. The connection to the server stays even when the client gives
	// up: to the server a frozen client is a silent one.
	HoldBefore
	// HoldAfter lets the message through and holds the following ones. After an Execute the server
	// has executed the statement, holds its locks, and waits for the Sync.
	HoldAfter
	// HoldReply lets the server execute everything up to the client's next Sync, and holds the
	// answers to this and the following messages until Release.
	HoldReply
)

// Rule is an action that waits for its message.
type Rule struct {
	match  Match
	action Action

	fired    chan struct{}
	released chan struct{}
	settled  chan struct{}
	once     sync.Once
}

// On prepares an action for the first message that matches, on any connection.
// With several rules the oldest that matches takes the message.
func (p *Proxy) On(match Match, action Action) *Rule {
	r := &Rule{
		match:    match,
		action:   action,
		fired:    make(chan struct{}),
		released: make(chan struct{}),
		settled:  make(chan struct{}),
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rules = append(p.rules, r)
	return r
}

// Fired is closed when the action is done: the connection is cut, or the message
// kept back or followed by silence.
func (r *Rule) Fired() <-chan struct{} { return r.fired }

// Settled is closed when the message has no further effect: the server's answer, up to the end of
// its round, has been passed to the client, or the connection has ended.
func (r *Rule) Settled() <-chan struct{} { return r.settled }

// Withdraw removes a rule that has not met its message, and reports whether it was in time.
func (p *Proxy) Withdraw(r *Rule) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := slices.Index(p.rules, r)
	if at < 0 {
		return false
	}
	p.rules = slices.Delete(p.rules, at, at+1)
	return true
}

// Release ends a hold, also one that has not begun. It may be called again.
func (r *Rule) Release() { r.once.Do(func() { close(r.released) }) }

// take is the rule for a message, which is spent thereby; nil when there is none.
func (p *Proxy) take(m Message) *Rule {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, r := range p.rules {
		if r.match(m) {
			p.rules = append(p.rules[:i:i], p.rules[i+1:]...)
			return r
		}
	}
	return nil
}
