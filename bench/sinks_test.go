package main

import (
	"context"
	"testing"
	"time"
)

// TestBareKafka_RateMeasured: the limit of the broker is a positive rate.
func TestBareKafka_RateMeasured(t *testing.T) {
	t.Parallel()
	b := &bench{size: size{spell: 10 * time.Millisecond}, results: newResults()}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := bareKafka(ctx, b); err != nil {
		t.Fatal(err)
	}
	if rate := b.results.by["limit.kafka"]; rate == nil || rate.Value <= 0 {
		t.Errorf("measured %v", rate)
	}
}
