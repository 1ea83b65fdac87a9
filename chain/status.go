package chain

import (
	"time"

	"github.com/fencepost/fencepost/txn"
)

// EndpointStatus is the state of one endpoint for operators. It holds no address, which is a
// secret.
type EndpointStatus struct {
	Endpoint string        `json:"endpoint"` // "endpoint 1", by the order in the configuration
	Healthy  bool          `json:"healthy"`  // not known to fail; true before the first call
	Class    txn.Class     `json:"class,omitempty"`
	Reason   string        `json:"reason,omitempty"` // of the last failure, while it is unhealthy
	RetryIn  time.Duration `json:"retry_in_ns,omitempty"`
	Head     uint64        `json:"head"` // newest reported block; 0 before the first
	// Batch is the most calls in one request: the configured limit, or less after a refusal.
	Batch       int    `json:"batch_limit"`
	BatchReason string `json:"batch_reason,omitempty"` // the words of the refusal
}

// Status returns the state of every endpoint, in the order of the configuration.
func (c *Client) Status() []EndpointStatus {
	all := make([]EndpointStatus, len(c.endpoints))
	for i, e := range c.endpoints {
		all[i] = e.status()
	}
	return all
}

func (e *endpoint) status() EndpointStatus {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.o.Clock.Now()
	s := EndpointStatus{
		Endpoint: e.label, Healthy: !e.unhealthy, Head: e.head,
		Batch: e.batches.limit(e.o.BatchLimit, now),
	}
	if s.Batch < e.o.BatchLimit {
		s.BatchReason = e.batches.reason
	}
	if e.unhealthy && e.last != nil {
		s.Class, s.Reason = e.last.class, e.last.detail
		s.RetryIn = max(0, e.retryAt.Sub(now))
	}
	return s
}
