package sink

// Outstanding is how many messages wait for an acknowledgement.
func (n *NATS) Outstanding() int { return n.js.PublishAsyncPending() }
