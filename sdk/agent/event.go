package agent

import (
	"context"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/toolpark/toolpark/sdk/internal/rest"
)

// Event is something that happened in a run. It carries ids and states, never payloads.
type Event struct {
	Seq       int64          `json:"seq"` // from 1 without gaps; 0 for progress, which is not kept
	Type      string         `json:"type"`
	Data      jsontext.Value `json:"data"`
	CreatedAt time.Time      `json:"created_at"` // zero for progress
}

// Events reads one page of a run's events after a cursor, "" for the first page. The returned cursor is
// "" when the page was the last.
func (c *Client) Events(ctx context.Context, run, after string) (events []Event, next string, err error) {
	query := url.Values{}
	if after != "" {
		query.Set("after", after)
	}
	var answer struct {
		Events     []Event    `json:"events"`
		Pagination pagination `json:"pagination"`
	}
	err = c.get(ctx, rest.Path("runs", run, "events"), query, 0, &answer)
	return answer.Events, answer.Pagination.NextAfter, err
}

type pagination struct {
	NextAfter string `json:"next_after"` // null reads as ""
}

// Stream follows a run's events after a sequence number, 0 for all of them, until the context ends or the
// stream does. The last pair holds the error that ended it; streaming again after the last Seq misses
// nothing but progress.
func (c *Client) Stream(ctx context.Context, run string, after int64) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		header := http.Header{}
		if after > 0 {
			header.Set("Last-Event-ID", strconv.FormatInt(after, 10))
		}
		stream, err := (&rest.Client{BaseURL: c.BaseURL, Token: c.Token, HTTP: c.HTTP}).Open(ctx, rest.Request{
			Method: http.MethodGet, Path: rest.Path("runs", run, "events", "stream"), Header: header,
		})
		if err != nil {
			yield(Event{}, err)
			return
		}
		defer stream.Close()
		for {
			m, err := stream.Next()
			if err != nil {
				yield(Event{}, err)
				return
			}
			e := Event{Type: m.Name, Data: m.Data} // progress, unless it is numbered
			if m.ID != "" {
				if err := json.Unmarshal(m.Data, &e, verbatim); err != nil {
					yield(Event{}, fmt.Errorf("decode event %s of run %s: %w", m.ID, run, err))
					return
				}
			}
			if !yield(e, nil) {
				return
			}
		}
	}
}
