package kube

import (
	"context"
	"fmt"
	"slices"
	"time"

	json "github.com/go-json-experiment/json/v1"
)

// event is what profllm reads of an event of the core API.
type event struct {
	Type    string    `json:"type"`
	Reason  string    `json:"reason"`
	Message string    `json:"message"`
	Last    time.Time `json:"lastTimestamp"`
	Object  struct {
		Kind string `json:"kind"`
		Name string `json:"name"`
		UID  string `json:"uid"`
	} `json:"involvedObject"`

	raw json.RawMessage
}

// events lists the events of a namespace, the oldest first.
func (k *Kube) events(ctx context.Context, at Place) ([]event, error) {
	out, err := k.kubectl(ctx, at, nil, "get", "events", "--output=json")
	if err != nil {
		return nil, err
	}
	var l list
	if err := json.Unmarshal(out, &l); err != nil {
		return nil, fmt.Errorf("kubectl get events: %w", err)
	}
	events := make([]event, 0, len(l.Items))
	for _, raw := range l.Items {
		e := event{raw: raw}
		if err := json.Unmarshal(raw, &e); err != nil {
			return nil, fmt.Errorf("kubectl get events: %w", err)
		}
		events = append(events, e)
	}
	slices.SortStableFunc(events, func(a, b event) int { return a.Last.Compare(b.Last) })
	return events, nil
}
