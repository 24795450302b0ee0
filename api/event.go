package api

import (
	"context"
	"encoding/json/jsontext"
	"net/http"
	"strconv"
	"time"
	"uuid"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/notify"
	"github.com/toolpark/toolpark/internal/postgres"
)

// streamPage is how many events a stream reads at once.
const streamPage = 200

type eventResponse struct {
	Seq       int64          `json:"seq"`
	Type      string         `json:"type"`
	Data      jsontext.Value `json:"data"`
	CreatedAt time.Time      `json:"created_at"`
}

func newEventResponse(e postgres.Event) eventResponse {
	return eventResponse{Seq: e.Seq, Type: e.Type, Data: e.Data, CreatedAt: e.CreatedAt}
}

func (s *Server) listEvents(w http.ResponseWriter, r *http.Request) error {
	run, err := s.detailedRun(r)
	if err != nil {
		return err
	}
	limit, cursor, err := page(r)
	if err != nil {
		return err
	}
	after, err := decodeCursor[int64](cursor)
	if err != nil {
		return err
	}
	events, err := s.DB.Events(r.Context(), run.AccountID, run.ID, after, limit+1)
	if err != nil {
		return err
	}
	events, next, err := nextPage(events, limit, func(e postgres.Event) int64 { return e.Seq })
	if err != nil {
		return err
	}
	list := make([]eventResponse, len(events))
	for i, e := range events {
		list[i] = newEventResponse(e)
	}
	return writeJSON(w, http.StatusOK, map[string]any{"events": list, "pagination": next})
}

// progressResponse is the last frame of a live claim. It is ephemeral, so its event has no id.
type progressResponse struct {
	TaskKey    string         `json:"task_key"`
	Generation int            `json:"generation"`
	Frame      jsontext.Value `json:"frame"`
	UpdatedAt  time.Time      `json:"updated_at"`
}

// streamEvents tells a run's events as they happen, from Last-Event-ID on, and the progress of its
// claims in between. It ends when the run has ended and everything was told.
func (s *Server) streamEvents(w http.ResponseWriter, r *http.Request) error {
	run, err := s.detailedRun(r)
	if err != nil {
		return err
	}
	after, err := lastEventID(r)
	if err != nil {
		return err
	}
	sub := s.Park.Hub.Subscribe(notify.RunTopic(run.ID), notify.ProgressTopic(run.ID))
	defer sub.Close()
	st, err := s.newStream(w, r)
	if err != nil {
		return err
	}
	defer st.Close()
	told := runTold{server: s, member: member(r), run: run.ID, stream: st, after: after}
	for {
		over, err := told.tell(r.Context())
		if err != nil || over {
			return nil //nolint:nilerr // the stream has begun: it ends, and the caller opens another
		}
		select {
		case <-st.Done():
			return nil
		case <-sub.C:
		}
	}
}

// runTold is how far a stream has told its run.
type runTold struct {
	server *Server
	member toolpark.Member
	run    uuid.UUID
	stream *stream
	after  int64
	frames time.Time
}

// tell writes what is new, and tells whether the run is over.
func (t *runTold) tell(ctx context.Context) (over bool, err error) {
	// The run before its events: once it has ended there are no more of them.
	run, err := t.server.DB.Run(ctx, t.member, t.run)
	if err != nil {
		return false, err
	}
	for {
		events, err := t.server.DB.Events(ctx, run.AccountID, run.ID, t.after, streamPage)
		if err != nil {
			return false, err
		}
		for _, e := range events {
			if err := t.stream.Event(strconv.FormatInt(e.Seq, 10), e.Type, newEventResponse(e)); err != nil {
				return false, err
			}
			t.after = e.Seq
		}
		if len(events) < streamPage {
			break
		}
	}
	if run.Status.Terminal() {
		return true, nil
	}
	frames, err := t.server.DB.Frames(ctx, run.AccountID, run.ID, t.frames)
	for _, f := range frames {
		progress := progressResponse{TaskKey: f.TaskKey, Generation: f.Generation, Frame: f.Frame, UpdatedAt: f.UpdatedAt}
		if err := t.stream.Event("", "progress", progress); err != nil {
			return false, err
		}
		t.frames = f.UpdatedAt
	}
	return false, err
}
