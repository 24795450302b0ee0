package runner

import (
	"context"
	"encoding/json/v2"
	"fmt"
	"net/http"

	"github.com/toolpark/toolpark/sdk/internal/rest"
)

// Types of events.
const (
	WorkAvailable = "work_available"
	WorkCanceled  = "work_canceled"
)

// Event is a hint about work at this address. Losing one is harmless: the inbox says everything.
type Event struct {
	Ref
	Type   string `json:"-"`
	Reason string `json:"reason"` // why work was canceled
}

// Events is an open stream of events; while it is open the executor counts as present. One goroutine
// reads it.
type Events struct{ stream *rest.Stream }

// Events opens the stream; it returns once the server has accepted.
func (c *Client) Events(ctx context.Context) (*Events, error) {
	s, err := c.rest().Open(ctx, rest.Request{Method: http.MethodGet, Path: rest.Path("executor", "events")})
	if err != nil {
		return nil, err
	}
	return &Events{s}, nil
}

// Next waits for the next event. The end of the stream is an error.
func (e *Events) Next() (Event, error) {
	m, err := e.stream.Next()
	if err != nil {
		return Event{}, err
	}
	event := Event{Type: m.Name}
	if err := json.Unmarshal(m.Data, &event); err != nil {
		return Event{}, fmt.Errorf("decode the event %q: %w", m.Name, err)
	}
	return event, nil
}

// Close ends the stream.
func (e *Events) Close() { e.stream.Close() }
